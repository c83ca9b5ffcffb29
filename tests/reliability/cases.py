"""The forty requests: ten sets of four tools, each offered with three requests that one of them serves and one that none does.

What is expected follows from the request and the tool's description alone. Where these leave open how to write something, every
sensible way is accepted; where the request says it, only that is. Cities are ones whose English name is the only one in wide use.
"""

from dataclasses import dataclass

from matchers import any_case, anything, near, one_of, optional, set_of, words


@dataclass(frozen=True)
class Case:
    name: str
    request: str
    tools: list
    # The right call: a tool's name and its arguments as `matchers` reads them. None where text is the right answer.
    call: tuple | None


# === the parts of a tool ===


def tool(name, description, required, /, **properties):
    """A tool; its first `required` properties are."""
    parameters = {"type": "object", "properties": properties, "required": list(properties)[:required], "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def string(description=None, **keywords):
    return typed("string", description, **keywords)


def number(description=None, **keywords):
    return typed("number", description, **keywords)


def integer(description=None, **keywords):
    return typed("integer", description, **keywords)


def typed(kind, description, **keywords):
    return {"type": kind, **({"description": description} if description else {}), **keywords}


def choice(*values):
    return {"type": "string", "enum": list(values)}


def array(items, description=None):
    return typed("array", description, items=items, minItems=1)


def record(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


DATE = string("As YYYY-MM-DD")


# === the cases ===


def place(city, country):
    """Nobody asked for the country, but naming it is no mistake."""
    return any_case(city, f"{city}, {country}")


WEATHER = [
    tool("get_weather", "Get the current weather of a city.", 1, city=string(), unit=choice("celsius", "fahrenheit")),
    tool("get_forecast", "Get the weather forecast for the next days.", 2, city=string(), days=integer(minimum=1, maximum=14)),
    tool("get_air_quality", "Get the air quality index of a city.", 1, city=string()),
    tool("get_sunrise", "Get the time of sunrise in a city on a date.", 2, city=string(), date=DATE),
]
ARITHMETIC = [
    tool("divide", "Divide one number by another.", 2, dividend=number(), divisor=number()),
    tool("power", "Raise a number to a power.", 2, base=number(), exponent=number()),
    tool("average", "Compute the average of a list of numbers.", 1, numbers=array(number())),
    tool("square_root", "Compute the square root of a number.", 1, number=number()),
]
FILES = [
    tool("read_file", "Read the content of a text file.", 1, path=string()),
    tool("write_file", "Write a text to a file; the file is created if it does not exist.", 2, path=string(), content=string()),
    tool("move_file", "Move or rename a file.", 2, source=string(), destination=string()),
    tool("list_directory", "List the files in a directory.", 1, path=string(),
         recursive=typed("boolean", "Whether to list subdirectories too. Default: false")),
]
CALENDAR = [
    tool("create_event", "Create a calendar event.", 3, title=string(), date=DATE, start_time=string("As HH:MM, 24 hours"),
         attendees=array(string(), "Email addresses")),
    tool("list_events", "List the calendar events of a day.", 1, date=DATE),
    tool("delete_event", "Delete a calendar event.", 1, event_id=integer()),
    tool("find_free_slot", "Find a free time slot on a day.", 2, date=DATE, duration_minutes=integer(minimum=5)),
]
SEARCH = [
    tool("web_search", "Search the web.", 1, query=string(), max_results=integer("Default: 10", minimum=1, maximum=50)),
    tool("get_headlines", "Get the latest news headlines.", 1, category=choice("politics", "business", "sports", "science")),
    tool("define_word", "Look up a word in the dictionary.", 1, word=string()),
    tool("search_images", "Search for images.", 1, query=string(), size=choice("small", "medium", "large")),
]
UNITS = [
    tool("convert_length", "Convert a length between units.", 3, value=number(),
         from_unit=choice("meter", "kilometer", "foot", "mile"), to_unit=choice("meter", "kilometer", "foot", "mile")),
    tool("convert_weight", "Convert a weight between units.", 3, value=number(),
         from_unit=choice("gram", "kilogram", "ounce", "pound"), to_unit=choice("gram", "kilogram", "ounce", "pound")),
    tool("convert_currency", "Convert an amount of money at today's rate.", 3, amount=number(),
         from_currency=string("ISO 4217 code, such as EUR"), to_currency=string("ISO 4217 code, such as EUR")),
    tool("convert_temperature", "Convert a temperature between units.", 3, value=number(),
         from_unit=choice("celsius", "fahrenheit", "kelvin"), to_unit=choice("celsius", "fahrenheit", "kelvin")),
]
HOME = [
    tool("set_light", "Set the brightness of the light in a room.", 2,
         room=choice("kitchen", "bedroom", "living_room", "bathroom"), brightness=integer("In percent", minimum=0, maximum=100)),
    tool("set_heating", "Set the target temperature of the heating.", 1, celsius=number(minimum=5, maximum=30)),
    tool("lock_door", "Lock a door.", 1, door=choice("front", "back", "garage")),
    tool("play_music", "Play music in a room.", 1, genre=string(), room=choice("kitchen", "bedroom", "living_room", "bathroom")),
]
MESSAGES = [
    tool("send_email", "Send an email.", 3, to=string("Email address"), subject=string(), body=string()),
    tool("send_sms", "Send a text message to a phone.", 2, phone=string("Phone number"), text=string()),
    tool("add_contact", "Add a person to the contacts.", 1, name=string(), email=string(), phone=string()),
    tool("translate", "Translate a text.", 2, text=string(), language=string("The language to translate into, such as German")),
]
ORDERS = [
    tool("place_order", "Order products.", 1, items=array(record(sku=string("Product number"), quantity=integer(minimum=1)))),
    tool("track_order", "Tell where an order is.", 1, order_id=string()),
    tool("cancel_order", "Cancel an order.", 2, order_id=string(), reason=choice("changed_mind", "too_late", "wrong_product", "other")),
    tool("change_address", "Change the delivery address of an order.", 2, order_id=string(),
         address=record(street=string("With the house number"), city=string(), postal_code=string())),
]
TRAVEL = [
    tool("search_flights", "Search for flights.", 3, origin=string("City"), destination=string("City"), date=DATE,
         passengers=integer("Default: 1", minimum=1)),
    tool("search_hotels", "Search for hotels.", 3, city=string(), check_in=DATE, check_out=DATE, guests=integer("Default: 1", minimum=1)),
    tool("rent_car", "Rent a car.", 2, city=string(), days=integer(minimum=1), category=choice("compact", "van", "luxury")),
    tool("get_train_times", "Get the departures of trains between two cities.", 2, origin=string("City"), destination=string("City")),
]

CASES = [
    Case("weather-now", "What is the weather like in Paris right now?", WEATHER,
         ("get_weather", {"city": place("Paris", "France"), "unit": optional(anything("celsius"))})),
    Case("weather-forecast", "Give me the weather forecast for Tokyo for the next 5 days.", WEATHER,
         ("get_forecast", {"city": place("Tokyo", "Japan"), "days": 5})),
    Case("weather-unit", "How cold is it in Reykjavík at the moment? I need it in Fahrenheit.", WEATHER,
         ("get_weather", {"city": one_of(place("Reykjavík", "Iceland"), place("Reykjavik", "Iceland")), "unit": "fahrenheit"})),
    Case("weather-none", "Why is the sky blue?", WEATHER, None),

    Case("arithmetic-divide", "What is 847 divided by 7?", ARITHMETIC, ("divide", {"dividend": 847, "divisor": 7})),
    Case("arithmetic-power", "Raise 2.5 to the power of 4.", ARITHMETIC,
         ("power", {"base": near(2.5, within=1e-9), "exponent": 4})),
    # An average does not depend on the order.
    Case("arithmetic-average", "What is the average of 4, 8, 15, 16, 23 and 42?", ARITHMETIC,
         ("average", {"numbers": set_of(4, 8, 15, 16, 23, 42)})),
    Case("arithmetic-none", "Thanks, that is all I needed. Have a nice day!", ARITHMETIC, None),

    Case("files-quotes", 'Create the file note.txt with exactly this content: She said "hello" and left.', FILES,
         ("write_file", {"path": one_of("note.txt", "./note.txt"), "content": 'She said "hello" and left.'})),
    Case("files-rename", "Rename report_draft.md to report_final.md.", FILES,
         ("move_file", {"source": one_of("report_draft.md", "./report_draft.md"),
                        "destination": one_of("report_final.md", "./report_final.md")})),
    Case("files-recursive", "List all files in the directory src, including those in its subdirectories.", FILES,
         ("list_directory", {"path": one_of("src", "src/", "./src", "./src/"), "recursive": True})),
    Case("files-none", "What does the abbreviation PDF stand for?", FILES, None),

    Case("calendar-create",
         'Put an event called "Budget review" into my calendar on 2025-03-14 at 10:00, with anna@example.com and ben@example.com.',
         CALENDAR, ("create_event", {"title": any_case("Budget review"), "date": "2025-03-14", "start_time": "10:00",
                                     "attendees": set_of("anna@example.com", "ben@example.com")})),
    Case("calendar-delete", "Delete the calendar event with the number 4711.", CALENDAR, ("delete_event", {"event_id": 4711})),
    Case("calendar-slot", "Find 45 free minutes in my calendar on 2025-06-02.", CALENDAR,
         ("find_free_slot", {"date": "2025-06-02", "duration_minutes": 45})),
    Case("calendar-none", "In which year did the Second World War end?", CALENDAR, None),

    Case("search-web", "Search the web for vegan ramen in Berlin. Three results are enough.", SEARCH,
         ("web_search", {"query": words("vegan", "ramen", "Berlin"), "max_results": 3})),
    Case("search-headlines", "Show me the latest sports headlines.", SEARCH, ("get_headlines", {"category": "sports"})),
    Case("search-define", "Look up the word serendipity in the dictionary.", SEARCH,
         ("define_word", {"word": any_case("serendipity")})),
    Case("search-none", "Hello! How are you today?", SEARCH, None),

    Case("units-length", "How many kilometers are 26.2 miles?", UNITS,
         ("convert_length", {"value": near(26.2, within=1e-9), "from_unit": "mile", "to_unit": "kilometer"})),
    Case("units-weight", "Convert 80 kilograms to pounds.", UNITS,
         ("convert_weight", {"value": 80, "from_unit": "kilogram", "to_unit": "pound"})),
    Case("units-currency", "How much are 250 US dollars in Japanese yen?", UNITS,
         ("convert_currency", {"amount": 250, "from_currency": any_case("USD"), "to_currency": any_case("JPY")})),
    Case("units-none", "Reserve a table for two at an Italian restaurant tonight.", UNITS, None),

    Case("home-light", "Dim the light in the bedroom to 30 percent.", HOME, ("set_light", {"room": "bedroom", "brightness": 30})),
    Case("home-heating", "Set the heating to 21.5 degrees.", HOME, ("set_heating", {"celsius": near(21.5, within=1e-9)})),
    Case("home-lock", "Please lock the back door.", HOME, ("lock_door", {"door": "back"})),
    Case("home-none", "Order a large pepperoni pizza for me.", HOME, None),

    Case("messages-unicode", 'Send the text message "Grüße aus Köln 🎉" to +491701234567.', MESSAGES,
         ("send_sms", {"phone": "+491701234567", "text": "Grüße aus Köln 🎉"})),
    Case("messages-translate", 'Translate "Where is the train station?" into French.', MESSAGES,
         ("translate", {"text": any_case("Where is the train station?", "Where is the train station"), "language": any_case("French")})),
    # An empty phone number says the same as none.
    Case("messages-contact", "Add Zoë O'Brien to my contacts. Her email is zoe@example.com.", MESSAGES,
         ("add_contact", {"name": "Zoë O'Brien", "email": "zoe@example.com", "phone": optional("")})),
    Case("messages-none", "Who painted the Mona Lisa?", MESSAGES, None),

    Case("orders-place", "I want to order 2 of product A100 and 5 of product B200.", ORDERS,
         ("place_order", {"items": set_of({"sku": "A100", "quantity": 2}, {"sku": "B200", "quantity": 5})})),
    Case("orders-cancel", "Please cancel my order ORD-88: I ordered the wrong product.", ORDERS,
         ("cancel_order", {"order_id": "ORD-88", "reason": "wrong_product"})),
    Case("orders-address", "Please deliver my order ORD-2291 to this address instead: 12 Mill Lane, Oxford, OX1 4AB.", ORDERS,
         ("change_address", {"order_id": "ORD-2291",
                             "address": {"street": any_case("12 Mill Lane"), "city": any_case("Oxford"),
                                         "postal_code": any_case("OX1 4AB")}})),
    Case("orders-none", "What is the largest planet in the solar system?", ORDERS, None),

    Case("travel-flights", "Find flights from Madrid to Boston on 2025-09-01 for 2 passengers.", TRAVEL,
         ("search_flights", {"origin": place("Madrid", "Spain"), "destination": any_case("Boston", "Boston, MA", "Boston, USA"),
                             "date": "2025-09-01", "passengers": 2})),
    Case("travel-hotels", "I need a hotel in Amsterdam from 2025-05-10 to 2025-05-13 for 3 guests.", TRAVEL,
         ("search_hotels", {"city": place("Amsterdam", "Netherlands"), "check_in": "2025-05-10", "check_out": "2025-05-13", "guests": 3})),
    Case("travel-car", "Rent a compact car in Denver for 4 days.", TRAVEL,
         ("rent_car", {"city": any_case("Denver", "Denver, Colorado", "Denver, CO"), "days": 4, "category": "compact"})),
    Case("travel-none", "Tell me a joke.", TRAVEL, None),
]
