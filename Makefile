# make run        build, start a model server if BACKEND_URL names none, prove one tool call, serve until Ctrl-C (ONCE=1: stop then)
# make test       every check and test, those against a real llama-server and real clients included
# make test-fast  cargo test alone
# make fuzz       each fuzz target for SECONDS=300, keeping what it learns
# make lint       what is checked without running anything
# make bench      toolgate beside nginx and the direct connection, and its streams (cargo bench: what reading one reply costs)
# make reliability  right answers of a small real model, with and without toolgate (CASES=8, CONFIGS=direct,never: a part)
# make docker     the container image

.PHONY: run test test-fast fuzz lint release bench reliability docker

run: release
	@tests/real/run.sh

test: lint test-fast release
	fuzz/run.sh
	cargo test --quiet --manifest-path benches/load/Cargo.toml
	tests/real/test.sh

test-fast:
	cargo test

fuzz:
	fuzz/run.sh $(or $(SECONDS),300)

lint:
	cargo fmt --check
	cargo fmt --check --manifest-path benches/load/Cargo.toml
	cargo fmt --check --manifest-path tests/clients/async-openai/Cargo.toml
	cargo fmt --check --manifest-path fuzz/Cargo.toml
	cargo clippy --quiet --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps
	docker/lint.sh

release:
	cargo build --release

bench: release
	@benches/run.sh

reliability: release
	@tests/reliability/run.sh

docker:
	docker build -f docker/Dockerfile -t toolgate .
