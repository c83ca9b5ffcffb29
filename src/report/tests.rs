use super::*;
use crate::budget::{
    Amount, Subject, Unit,
    ledger::{Action, Entry},
};

const DAY: u64 = 86_400_000;
/// Midnight of 2026-11-22 in UTC.
const MIDNIGHT: u64 = 20_779 * DAY;

fn line(at_ms: u64, request: &str, (what, name): (What, &str), usd: Option<&str>) -> String {
    let at = chrono::DateTime::from_timestamp_millis(i64::try_from(at_ms).unwrap()).unwrap().to_rfc3339();
    let named = match what {
        What::Model => format!(r#""kind":"model_attempt","model":"{name}","tokens_in":10,"tokens_out":2"#),
        What::Tool => format!(r#""kind":"tool_call","server":"fs","tool":"{name}","executed":{}"#, usd.is_some()),
    };
    let cost = usd.map(|usd| format!(r#","cost_usd":{usd}"#)).unwrap_or_default();
    format!(r#"{{{named},"timestamp":"{at}","request_id":"{request}","key":"alice"{cost}}}"#)
}

fn entry(at_ms: u64, request: &str, (what, name): (What, &str), microcents: Option<u64>) -> Call {
    let text = str::to_owned;
    let (kind, name) = match what {
        What::Model => ("model", text(name)),
        What::Tool => ("tool.read", format!("fs.{name}")),
    };
    let tokens = (what == What::Model).then(|| Amount::new(Unit::Tokens, 12));
    let cost: Vec<Amount> = microcents.map(|amount| Amount::new(Unit::UsdMicrocents, amount)).into_iter().chain(tokens).collect();
    let action = Action { kind: text(kind), name, key: text("alice"), request_id: text(request), session_id: String::new() };
    Entry { at_ms, subject: Subject::default(), action, charged: cost.clone(), cost }.into()
}

/// What `lines` and `books` come to.
fn compared(terms: Terms, lines: &[String], books: Option<Vec<Call>>) -> (Comparison, Counted) {
    let (mut comparison, mut counted) = (Comparison::new(terms, books), Counted::default());
    counted.read(lines.join("\n").as_bytes(), &mut comparison).unwrap();
    comparison.finish();
    (comparison, counted)
}

const M: (What, &str) = (What::Model, "m");
const READ: (What, &str) = (What::Tool, "read");

fn usual() -> (Vec<String>, Vec<Call>) {
    let at = MIDNIGHT + 1000;
    let lines = vec![
        line(at, "r1", M, Some("0.00000300")),
        line(at + 1, "r1", READ, Some("0.00000005")),
        line(at + 2, "r1", M, Some("0.00000001")),
        line(at + 3, "r2", M, None),
        line(at + 4, "r2", READ, None),
    ];
    let books = vec![
        entry(at, "r1", M, Some(300)),
        entry(at + 1, "r1", READ, Some(5)),
        entry(at + 2, "r1", M, Some(1)),
        entry(at + 3, "r2", M, None),
    ];
    (lines, books)
}

#[test]
fn what_agrees_agrees_to_the_microcent() {
    let (lines, books) = usual();
    let (comparison, _) = compared(Terms::default(), &lines, Some(books));
    assert_eq!(comparison.agrees(), Some(true));
    let expected = Sums { calls: 5, tokens_in: 30, tokens_out: 6, traced: 306, booked_calls: 4, booked_tokens: 36, booked: 306 };
    assert_eq!(comparison.groups().collect::<Vec<_>>(), [("2026-11-22", &expected)]);
    assert_eq!(comparison.total(), expected);
}

#[test]
fn what_was_not_made_is_left_out_on_demand() {
    let (lines, books) = usual();
    let terms = Terms { executed_only: true, by: By::Tool, ..Terms::default() };
    let (comparison, _) = compared(terms, &lines, Some(books));
    let calls: Vec<(&str, u64)> = comparison.groups().map(|(name, sums)| (name, sums.calls)).collect();
    assert_eq!((calls, comparison.agrees()), (vec![("(models)", 3), ("fs.read", 1)], Some(true)));
}

#[test]
fn each_way_to_differ_is_found() {
    let check = |change: fn(&mut Vec<String>, &mut Vec<Call>), expected: &[(&str, Option<u64>, Option<u64>)], difference: i128| {
        let (mut lines, mut books) = usual();
        change(&mut lines, &mut books);
        let (comparison, _) = compared(Terms::default(), &lines, Some(books));
        let odd: Vec<_> = comparison.odd().0.iter().map(|odd| (&*odd.request_id, odd.traced, odd.booked)).collect();
        assert_eq!(odd, expected);
        assert_eq!((comparison.agrees(), comparison.total().difference()), (Some(false), difference));
    };
    check(|lines, _| lines[0] = lines[0].replace("0.00000300", "0.00000301"), &[("r1", Some(301), Some(300))], 1);
    check(|lines, _| drop(lines.remove(2)), &[("r1", None, Some(1))], -1);
    check(|_, books| drop(books.remove(1)), &[("r1", Some(5), None)], 5);
    check(|lines, _| lines[1] = lines[1].replace("r1", "r9"), &[("r9", Some(5), None), ("r1", None, Some(5))], 0);
    check(|lines, _| lines.push(lines[1].clone()), &[("r1", Some(5), None)], 5);
    check(|lines, _| lines[2] = lines[2].replace(r#","cost_usd":0.00000001"#, ""), &[("r1", Some(0), Some(1))], -1);
}

#[test]
fn midnight_and_the_ends_of_the_time_are_no_difference() {
    // The books were later than the trace, and sooner.
    let lines = [line(MIDNIGHT - 1, "late", M, Some("0.1")), line(MIDNIGHT + DAY, "soon", M, Some("0.2"))];
    let books = || vec![entry(MIDNIGHT, "late", M, Some(10_000_000)), entry(MIDNIGHT + DAY - 1, "soon", M, Some(20_000_000))];
    let range = Range { since_ms: MIDNIGHT, until_ms: MIDNIGHT + DAY };
    for range in [range, Range::default()] {
        let (comparison, _) = compared(Terms { range, ..Terms::default() }, &lines, Some(books()));
        let groups: Vec<_> = comparison.groups().map(|(day, sums)| (day, sums.calls, sums.traced, sums.booked)).collect();
        assert_eq!(groups, [("2026-11-22", 2, 30_000_000, 30_000_000)]);
        assert_eq!(comparison.agrees(), Some(true));
    }
    for range in [Range { until_ms: MIDNIGHT, ..Range::default() }, Range { since_ms: MIDNIGHT + DAY, ..Range::default() }] {
        let (comparison, _) = compared(Terms { range, ..Terms::default() }, &lines, Some(books()));
        assert_eq!((comparison.groups().count(), comparison.agrees()), (0, Some(true)));
    }
}

#[test]
fn without_books_nothing_is_compared() {
    let (lines, _) = usual();
    let (comparison, _) = compared(Terms { by: By::Model, ..Terms::default() }, &lines, None);
    let groups: Vec<_> = comparison.groups().map(|(name, sums)| (name, sums.calls, sums.traced)).collect();
    assert_eq!((groups, comparison.agrees()), (vec![("(tools)", 2, 5), ("m", 3, 301)], None));
}

#[test]
fn damaged_lines_are_counted() {
    let (mut lines, books) = usual();
    lines.insert(1, "not json".to_owned());
    lines.insert(2, String::new());
    lines.insert(3, r#"{"kind":"another"}"#.to_owned());
    lines.push(r#"{"kind":"tool_call","times"#.to_owned());
    let (comparison, counted) = compared(Terms { by: By::Key, ..Terms::default() }, &lines, Some(books));
    assert_eq!(counted, Counted { lines: 8, malformed: 1, other: 1, unfinished: 1 });
    assert_eq!(comparison.agrees(), Some(true));
    assert_eq!(comparison.groups().map(|(key, _)| key).collect::<Vec<_>>(), ["alice"]);
}

#[test]
fn only_the_first_are_named_and_all_are_counted() {
    let lines: Vec<String> = (0..50).map(|number| line(MIDNIGHT, &format!("r{number}"), M, Some("0.00000001"))).collect();
    let (comparison, _) = compared(Terms::default(), &lines, Some(Vec::new()));
    let (shown, count) = comparison.odd();
    assert_eq!((shown.len(), count), (20, 50));
}

fn page(comparison: &Comparison) -> Page<'_> {
    Page {
        comparison,
        counted: Counted { lines: 5, malformed: 1, ..Counted::default() },
        traces: &[],
        ledger: Ledger::At("here".to_owned()),
        notes: &[],
    }
}

#[test]
fn the_table_is_for_people() {
    let (mut lines, books) = usual();
    lines[0] = lines[0].replace("0.00000300", "1.0");
    let (comparison, _) = compared(Terms::default(), &lines, Some(books));
    let expected = "\
day         calls  tokens in  tokens out  traced USD  booked  ledger USD  difference
2026-11-22      5         30           6  1.00000006       4  0.00000306  0.99999700
total           5         30           6  1.00000006       4  0.00000306  0.99999700

left out: 1 lines malformed
ledger: here, 2026-11-22T00:00:01Z to 2026-11-22T00:00:01Z
traces and ledger DISAGREE: by 0.999997 USD in all, about 1 calls
  r1 model m: 1.0 USD in the traces, 0.000003 USD in the ledger
";
    assert_eq!(page(&comparison).to_string(), expected);
}

#[test]
fn the_json_has_money_with_all_digits() {
    let (mut lines, books) = usual();
    lines.remove(0);
    let (comparison, _) = compared(Terms::default(), &lines, Some(books));
    let json = page(&comparison).json().unwrap();
    for part in [
        r#""group": "2026-11-22""#,
        r#""cost_usd": 0.00000006"#,
        r#""cost_microcents": 6"#,
        r#""cost_usd": 0.00000306"#,
        r#""difference_usd": -0.000003"#,
        r#""difference_microcents": -300"#,
        r#""agrees": false"#,
        r#""malformed": 1"#,
        r#""ledger_cost_microcents": 300"#,
    ] {
        assert!(json.contains(part), "{part} in {json}");
    }
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
}
