//! The ledger in a file, while its process is killed and its disk is full: real processes, real signals, real limits.
//!
//! A test starts this executable again and asks it for [`work_of_a_child`]; what that does is said in its environment.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test may panic")]

use std::{
    collections::BTreeMap,
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use toolgate::budget::{
    Amount, Store, Subject, Unit,
    ledger::{Action, Balance, Error, Event, Overage, Request, Terms},
    store::file::{File, Sync},
};

/// Each is a reservation and what settles it: 10,000 operations.
const CALLS: u64 = 5000;
const THREADS: u64 = 4;
const KILLS: usize = 8;
/// What a call may cost at most.
const ESTIMATE: u64 = 10;
const TENANT: &str = "tenant:t";

/// Killed at random moments and started again, a process that asks anew for what had no answer ends with books in which each call is once.
#[test]
fn nothing_is_lost_or_counted_twice_when_the_process_is_killed() {
    let folder = Folder::new("killed");
    let store = open(&folder.0, Sync::Every(Duration::from_millis(20)));
    block_on(store.allocate(TENANT, Unit::Credits, &Terms { allocated: Some(1_000_000), ..Terms::default() })).unwrap();
    drop(store);
    let begun = Instant::now();
    for _ in 0..KILLS {
        let before = charges(&folder.0).len();
        let mut child = child("calls", &folder.0);
        // In the middle of its work, at a moment of no pattern: the clock's last digits.
        while charges(&folder.0).len() < before + 100 {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does nothing");
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_micros(u64::from(begun.elapsed().subsec_nanos()) / 7 % 100_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let settled = charges(&folder.0);
        let (balance, entries) = books(&folder.0);
        // What was answered is there, and no more than each thread had begun beside.
        let answered: u64 = settled.values().sum();
        assert!((answered..=answered + THREADS * ESTIMATE).contains(&balance.spent), "{answered} answered, {balance:?}");
        assert!(balance.reserved <= THREADS * ESTIMATE, "{balance:?}");
        assert_eq!(entries.values().sum::<u64>(), balance.spent);
    }
    assert!(charges(&folder.0).len() < CALLS as usize, "the last was killed after its work was done");
    assert!(child("calls", &folder.0).wait().unwrap().success());
    let settled = charges(&folder.0);
    let (balance, entries) = books(&folder.0);
    assert_eq!(settled.len() as u64, CALLS);
    assert_eq!((balance.spent, balance.reserved, balance.debt), (settled.values().sum(), 0, 0));
    let charged: BTreeMap<u64, u64> = settled.into_iter().filter(|(_, charged)| *charged > 0).collect();
    assert_eq!(entries, charged, "each call that cost something is in the books once, with its cost");
}

/// On a full disk an operation fails and changes nothing; when there is room, all goes on.
#[test]
fn a_full_disk_changes_nothing() {
    // The journal finds no room first, or the database does.
    for interval in ["3600000", "5"] {
        let folder = Folder::new("full");
        let mut command = Command::new("sh");
        // Blocks of 512 bytes. The signal is ignored so that the write fails, as it does on a full disk.
        command.args(["-c", "trap '' 25; ulimit -S -f 8192; exec \"$0\" \"$@\""]).arg(env::current_exe().unwrap());
        let mut child = as_child(&mut command, "full", &folder.0).env("LEDGER_INTERVAL", interval).spawn().unwrap();
        assert!(child.wait().unwrap().success(), "with an interval of {interval} ms");
    }
}

/// What the tests above want of a process of its own; nothing when it is run among them.
#[test]
fn work_of_a_child() {
    let Some(folder) = env::var_os("LEDGER_FOLDER").map(PathBuf::from) else { return };
    match env::var_os("LEDGER_WORK").unwrap().to_str().unwrap() {
        "calls" => {
            let store = open(&folder, Sync::Every(Duration::from_millis(20)));
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (store, folder) = (&store, &folder);
                    scope.spawn(move || calls(store, folder, thread));
                }
            });
        }
        "full" => fill(&folder),
        other => panic!("{other}"),
    }
}

/// Does the calls of one thread that have no answer yet. Each line is written before the call is begun, and when it is answered.
fn calls(store: &Store, folder: &Path, thread: u64) {
    let path = folder.join(format!("answers-{thread}"));
    let answered = answers(&path);
    let mut lines = fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
    let mut say = |line: String| lines.write_all(format!("{line}\n").as_bytes()).unwrap();
    for number in (thread..CALLS).step_by(THREADS as usize).filter(|number| !answered.settled.contains_key(number)) {
        let reserved = block_on(store.reserve(&request(number))).unwrap();
        let known = answered.reserved.get(&number);
        assert!(known.is_none_or(|id| *id == reserved.reservation_id), "another reservation for the same key");
        say(format!("reserved {number} {}", reserved.reservation_id));
        let charged = settle(store, number, &reserved.reservation_id);
        say(format!("settled {number} {charged}"));
    }
}

/// Every fifth call is not done. The others cost more than was thought, or less.
fn settle(store: &Store, number: u64, id: &str) -> u64 {
    if number.is_multiple_of(5) {
        block_on(store.release(id, "r")).unwrap();
        return 0;
    }
    let committed = block_on(store.commit(id, "c", &[Amount::new(Unit::Credits, 1 + number * 7 % ESTIMATE)])).unwrap();
    committed.charged[0].amount
}

/// Fills what it may of the disk, and goes on when it may have more.
fn fill(folder: &Path) {
    let interval = env::var_os("LEDGER_INTERVAL").unwrap().to_str().unwrap().parse().unwrap();
    let sync = Sync::Every(Duration::from_millis(interval));
    let store = open(folder, sync);
    block_on(store.allocate(TENANT, Unit::Credits, &Terms { allocated: Some(1_000_000), ..Terms::default() })).unwrap();
    let charge = |number: u64| block_on(store.event(&event(number)));
    let done = (0..50_000).find(|number| charge(*number).is_err()).expect("it is never full");
    assert!(done > 100, "full after {done}");
    assert!(matches!(charge(done), Err(Error::Store(_))));
    // Where the database cannot be used, there is nothing to be read either.
    if let Ok(balances) = block_on(store.balances()) {
        assert_eq!(balances[0].2.spent, done, "what failed changed nothing");
    }
    let (_, hard) = rlimit::Resource::FSIZE.get().unwrap();
    rlimit::Resource::FSIZE.set(hard, hard).unwrap();
    let begun = Instant::now();
    while let Err(error) = charge(done) {
        assert!(begun.elapsed() < Duration::from_secs(5), "{error}");
        std::thread::sleep(Duration::from_millis(5));
    }
    for number in done + 1..done + 100 {
        charge(number).unwrap();
    }
    let check = |store: &Store| {
        assert_eq!(block_on(store.balances()).unwrap()[0].2.spent, done + 100);
        assert_eq!(block_on(store.entries(0, u64::MAX)).unwrap().len() as u64, done + 100);
    };
    check(&store);
    drop(store);
    check(&open(folder, sync));
}

fn subject() -> Subject {
    Subject { tenant: Some("t".to_owned()), ..Subject::default() }
}

fn request(number: u64) -> Request {
    Request {
        idempotency_key: number.to_string(),
        subject: subject(),
        action: Action { name: number.to_string(), ..Action::default() },
        estimates: vec![Amount::new(Unit::Credits, ESTIMATE)],
        quotas: Vec::new(),
        opens: false,
        ttl_ms: 600_000,
        grace_period_ms: 5_000,
        overage_policy: Overage::AllowIfAvailable,
    }
}

fn event(number: u64) -> Event {
    Event {
        idempotency_key: number.to_string(),
        subject: subject(),
        action: Action { name: "x".repeat(1000), ..Action::default() },
        actuals: vec![Amount::new(Unit::Credits, 1)],
        quotas: Vec::new(),
        opens: false,
        overage_policy: Overage::AllowIfAvailable,
    }
}

/// What a thread was answered.
#[derive(Default)]
struct Answers {
    reserved: BTreeMap<u64, String>,
    settled: BTreeMap<u64, u64>,
}

fn answers(path: &Path) -> Answers {
    let mut answers = Answers::default();
    let text = fs::read_to_string(path).unwrap_or_default();
    // A line that was cut off was never written: the call is asked for again.
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["reserved", number, id] => {
                answers.reserved.insert(number.parse().unwrap(), id.to_owned());
            }
            ["settled", number, charged] => {
                answers.settled.insert(number.parse().unwrap(), charged.parse().unwrap());
            }
            _ => panic!("{line}"),
        }
    }
    answers
}

/// What all threads were told that their calls cost.
fn charges(folder: &Path) -> BTreeMap<u64, u64> {
    (0..THREADS).flat_map(|thread| answers(&folder.join(format!("answers-{thread}"))).settled).collect()
}

/// The tenant's balance, and what each call cost by the books, in which it is once.
fn books(folder: &Path) -> (Balance, BTreeMap<u64, u64>) {
    let store = open(folder, Sync::Every(Duration::from_millis(20)));
    let [(_, _, balance)] = &block_on(store.balances()).unwrap()[..] else { panic!("one budget") };
    let entries = block_on(store.entries(0, u64::MAX)).unwrap();
    let costs: BTreeMap<u64, u64> = entries.iter().map(|entry| (entry.action.name.parse().unwrap(), entry.charged[0].amount)).collect();
    assert_eq!(costs.len(), entries.len(), "a call is in the books twice");
    (balance.clone(), costs)
}

fn open(folder: &Path, sync: Sync) -> Store {
    Store::File(File::open(folder.join("ledger"), sync).unwrap())
}

fn child(work: &str, folder: &Path) -> Child {
    as_child(&mut Command::new(env::current_exe().unwrap()), work, folder).spawn().unwrap()
}

fn as_child<'a>(command: &'a mut Command, work: &str, folder: &Path) -> &'a mut Command {
    command.args(["--exact", "work_of_a_child", "--nocapture"]).env("LEDGER_FOLDER", folder).env("LEDGER_WORK", work).stdout(Stdio::null())
}

fn block_on<T>(operation: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(operation)
}

/// A folder of a test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("toolgate-ledger-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
