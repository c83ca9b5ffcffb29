//! The list of models as servers write it: OpenAI's has names only, most others add the context and what a model can do, each in its own
//! words.

use std::time::Duration;

use serde_json::Value;

use crate::backend::{Error, Model, Target};

const PATH: &str = "/v1/models";
/// LM Studio's own list, which has the lengths that the other lacks.
const LM_STUDIO_PATH: &str = "/api/v0/models";
/// What LM Studio names as the owner of every model.
const LM_STUDIO_OWNER: &str = "organization_owner";
/// A list is at hand; some hosted ones are long.
const PATIENCE: Duration = Duration::from_secs(5);

/// The models of the server at `target`.
pub(in crate::backend) async fn of(target: &Target) -> Result<Vec<Model>, Error> {
    let list = list(target).await?;
    let is_lm_studio = entries(&list).iter().any(|entry| text(entry, "owned_by") == Some(LM_STUDIO_OWNER));
    if is_lm_studio && let Ok(own) = target.ask::<Value>(LM_STUDIO_PATH, PATIENCE).await {
        return Ok(read(&own));
    }
    Ok(read(&list))
}

/// What the server answers when it is asked for its models.
pub(in crate::backend) async fn list(target: &Target) -> Result<Value, Error> {
    target.ask(PATH, PATIENCE).await
}

/// The models in a list.
pub(in crate::backend) fn read(list: &Value) -> Vec<Model> {
    entries(list).iter().filter_map(model).collect()
}

/// OpenAI's list is in `data`; Together's is bare.
fn entries(list: &Value) -> &[Value] {
    list.get("data").unwrap_or(list).as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Where a length stands, that of the model as it is run first: LM Studio; vLLM and SGLang; llama-server; OpenRouter and Together; Groq;
/// Mistral and LM Studio.
const LENGTHS: [&str; 6] =
    ["/loaded_context_length", "/max_model_len", "/meta/n_ctx", "/context_length", "/context_window", "/max_context_length"];

/// What says that a model can do something: a place that is true, or a list and a word in it.
const ABILITIES: [(&str, &[(&str, &str)]); 4] = [
    // Mistral; OpenRouter; LM Studio.
    ("tools", &[("/capabilities/function_calling", ""), ("/supported_parameters", "tools"), ("/capabilities", "tool_use")]),
    ("vision", &[("/capabilities/vision", ""), ("/architecture/input_modalities", "image"), ("/type", "vlm")]),
    ("thinking", &[("/supported_parameters", "reasoning")]),
    ("embedding", &[("/type", "embeddings"), ("/type", "embedding")]),
];

fn model(entry: &Value) -> Option<Model> {
    let id = text(entry, "id")?.to_owned();
    let context_length = LENGTHS.iter().find_map(|place| entry.pointer(place)?.as_u64()).filter(|length| *length > 0);
    let has = |(place, word): &(&str, &str)| match entry.pointer(place) {
        Some(Value::Bool(yes)) => *yes,
        Some(Value::String(text)) => text == word,
        Some(Value::Array(words)) => words.iter().any(|known| known.as_str() == Some(*word)),
        _ => false,
    };
    let abilities = ABILITIES.iter().filter(|(_, signs)| signs.iter().any(has));
    Some(Model { id, context_length, capabilities: abilities.map(|(ability, _)| (*ability).to_owned()).collect() })
}

fn text<'a>(entry: &'a Value, name: &str) -> Option<&'a str> {
    entry.get(name)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_of_known_servers_are_read() {
        let check = |list: Value, expected: &[(&str, Option<u64>, &[&str])]| {
            let models = read(&list);
            let models: Vec<_> = models
                .iter()
                .map(|model| (model.id.as_str(), model.context_length, model.capabilities.iter().map(String::as_str).collect::<Vec<_>>()))
                .collect();
            let expected: Vec<_> = expected.iter().map(|(id, length, abilities)| (*id, *length, abilities.to_vec())).collect();
            assert_eq!(models, expected, "{list}");
        };
        check(json!({"object": "list", "data": [{"id": "gpt-x", "object": "model", "owned_by": "openai"}]}), &[("gpt-x", None, &[])]);
        check(json!({"data": [{"id": "q", "owned_by": "vllm", "max_model_len": 8192, "root": "/q"}]}), &[("q", Some(8192), &[])]);
        check(json!({"data": [{"id": "g", "context_window": 131072, "active": true}]}), &[("g", Some(131_072), &[])]);
        check(json!([{"id": "t", "type": "chat", "context_length": 32768}]), &[("t", Some(32_768), &[])]);
        check(
            json!({"data": [{"id": "o", "context_length": 4096, "architecture": {"input_modalities": ["text", "image"]},
                             "supported_parameters": ["tools", "reasoning", "temperature"]}]}),
            &[("o", Some(4096), &["tools", "vision", "thinking"])],
        );
        check(
            json!({"data": [{"id": "m", "max_context_length": 32768,
                             "capabilities": {"completion_chat": true, "function_calling": true, "vision": false}}]}),
            &[("m", Some(32_768), &["tools"])],
        );
        check(
            json!({"data": [{"id": "l", "type": "vlm", "max_context_length": 32768, "loaded_context_length": 4096,
                             "capabilities": ["tool_use"]}, {"id": "e", "type": "embeddings"}]}),
            &[("l", Some(4096), &["tools", "vision"]), ("e", None, &["embedding"])],
        );
        check(
            json!({"data": [{"object": "model"}, {"id": 3}, 7, {"id": "z", "max_model_len": "8192", "context_length": 0}]}),
            &[("z", None, &[])],
        );
        for nothing in [json!({"data": null}), json!({}), json!("x"), json!({"data": {"id": "x"}})] {
            check(nothing, &[]);
        }
    }
}
