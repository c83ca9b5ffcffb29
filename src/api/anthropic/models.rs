//! The list of models.

use bytes::Bytes;
use serde_json::{Value, json};

/// The JSON of a whole list: of each model its id and when it was made, in seconds since 1970.
pub fn models<'a>(models: impl IntoIterator<Item = (&'a str, u64)>) -> Bytes {
    let model = |(id, created): (&str, u64)| {
        json!({
            "type": "model", "id": id, "display_name": id, "created_at": date_time(created),
            "capabilities": null, "max_input_tokens": null, "max_tokens": null,
        })
    };
    let data: Vec<Value> = models.into_iter().map(model).collect();
    let id = |model: Option<&Value>| model.map_or(Value::Null, |model| model.get("id").cloned().unwrap_or_default());
    json!({"has_more": false, "first_id": id(data.first()), "last_id": id(data.last()), "data": data}).to_string().into()
}

/// Seconds since 1970 as RFC 3339 has it. The date is counted in eras of 400 years that begin on a first of March, so that the day that
/// may be missing is the last of its year.
fn date_time(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let date = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}Z", second / 3_600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_dates() {
        let check = |seconds: u64, expected: &str| assert_eq!(date_time(seconds), expected);
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_399, "2000-02-28T23:59:59Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(951_868_800, "2000-03-01T00:00:00Z");
        check(1_700_000_000, "2023-11-14T22:13:20Z");
        check(4_107_542_399, "2100-02-28T23:59:59Z");
        check(4_107_542_400, "2100-03-01T00:00:00Z");
    }

    #[test]
    fn a_list_names_its_ends() {
        let list = |ids: &[&'static str]| serde_json::from_slice::<Value>(&models(ids.iter().map(|id| (*id, 0)))).unwrap();
        let two = list(&["a", "b"]);
        assert_eq!((&two["first_id"], &two["last_id"], two["data"].as_array().unwrap().len()), (&json!("a"), &json!("b"), 2));
        assert_eq!((&two["data"][1]["type"], &two["data"][1]["created_at"]), (&json!("model"), &json!("1970-01-01T00:00:00Z")));
        assert_eq!(list(&[])["first_id"], Value::Null);
    }
}
