//! What the guardrails make of a model's replies.

mod respond;

mod choice;

mod rescue;

mod nudges;

mod budgets;

mod truncated;

mod repair;

mod answers;

mod stream;

mod live;

mod live_calls;

mod text;

mod thinking;

mod stuck;

mod constrain;

mod split;

mod switches;

mod schemas;

mod liberties;

mod history;
