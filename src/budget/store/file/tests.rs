use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;

use super::{database::ENTRY_KEPT_MS, rows::Table, *};
use crate::budget::{
    Amount, Subject, Unit,
    ledger::{Action, Code, Event, KEPT_MS, Overage, Quota, Request, Terms},
    store::{memory::Memory, tests::opened::Folder},
};

const TENANT: &str = "tenant:t";
/// Long after now: nothing is old yet.
const BEGIN_MS: u64 = 4_000_000_000_000;
/// The thread writes nothing by itself.
const NEVER: Sync = Sync::Every(Duration::from_secs(3600));

fn open(folder: &Folder) -> File {
    File::open(folder.0.join("ledger"), NEVER).unwrap()
}

/// The files as they are now, as when the process were killed.
fn killed(folder: &Folder) -> Folder {
    let copy = Folder::new();
    fs::create_dir_all(&copy.0).unwrap();
    for entry in fs::read_dir(&folder.0).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.0.join(path.file_name().unwrap())).unwrap();
    }
    copy
}

fn journal(folder: &Folder, half: char) -> PathBuf {
    folder.0.join(format!("ledger.journal-{half}"))
}

fn subject() -> Subject {
    Subject { tenant: Some("t".into()), agent: Some("a".into()), ..Subject::default() }
}

fn request(key: &str, amount: u64) -> Request {
    Request {
        idempotency_key: key.to_owned(),
        subject: subject(),
        action: Action::default(),
        estimates: vec![Amount::new(Unit::Credits, amount)],
        quotas: vec![Quota { scope: "limit:x".into(), unit: Unit::Credits, allocated: 500, until_ms: BEGIN_MS + 60_000 }],
        opens: true,
        ttl_ms: 60_000,
        grace_period_ms: 5_000,
        overage_policy: Overage::AllowIfAvailable,
    }
}

fn event(key: &str, amount: u64) -> Event {
    Event {
        idempotency_key: key.to_owned(),
        subject: subject(),
        action: Action::default(),
        actuals: vec![Amount::new(Unit::Credits, amount)],
        quotas: Vec::new(),
        opens: true,
        overage_policy: Overage::AllowIfAvailable,
    }
}

/// Charges one, under a key of the number.
fn charge(file: &File, number: u64) {
    file.with(BEGIN_MS + number, |mut ledger| ledger.event(&event(&number.to_string(), 1))).unwrap();
}

fn spent(file: &File) -> u64 {
    let balances = file.reading().balances().unwrap();
    let spent = balances.iter().find(|(scope, ..)| scope == TENANT).map_or(0, |(.., balance)| balance.spent);
    assert_eq!(file.reading().entries(0, u64::MAX, usize::MAX).unwrap().len() as u64, spent, "a line for each");
    spent
}

fn count(file: &File, table: Table) -> usize {
    file.shared.lock().reader().unwrap().range(table, &(Vec::new()..vec![u8::MAX; 9])).unwrap().count()
}

#[test]
fn what_was_closed_is_opened_as_it_was() {
    let folder = Folder::new();
    let file = open(&folder);
    let asked = request("a", 10);
    let reserved = file.with(BEGIN_MS, |mut ledger| ledger.reserve(&asked)).unwrap();
    charge(&file, 1);
    let (balances, entries) = (file.reading().balances().unwrap(), file.reading().entries(0, u64::MAX, usize::MAX).unwrap());
    drop(file);
    assert_eq!(
        fs::metadata(journal(&folder, 'a')).unwrap().len() + fs::metadata(journal(&folder, 'b')).unwrap().len(),
        24,
        "all is in the database"
    );
    let file = open(&folder);
    assert_eq!((file.reading().balances().unwrap(), file.reading().entries(0, u64::MAX, usize::MAX).unwrap()), (balances, entries));
    assert_eq!(file.with(BEGIN_MS, |mut ledger| ledger.reserve(&asked)).unwrap(), reserved);
    let id = reserved.reservation_id;
    file.with(BEGIN_MS, |mut ledger| ledger.commit(&id, "b", &[Amount::new(Unit::Credits, 7)])).unwrap();
    assert_eq!(file.reading().balances().unwrap()[0].2.reserved, 0);
}

#[test]
fn what_was_answered_outlives_the_process() {
    let folder = Folder::new();
    let file = open(&folder);
    // In the database; frozen for it; only in the journal.
    charge(&file, 1);
    file.shared.checkpoint(BEGIN_MS).unwrap();
    charge(&file, 2);
    assert!(file.shared.freeze().unwrap().is_some());
    charge(&file, 3);
    assert_eq!(spent(&file), 3);
    let reopened = open(&killed(&folder));
    assert_eq!(spent(&reopened), 3);
    charge(&reopened, 3);
    assert_eq!(spent(&reopened), 3, "the answer is known");
    file.shared.checkpoint(BEGIN_MS).unwrap();
    file.shared.checkpoint(BEGIN_MS).unwrap();
    assert_eq!((spent(&file), spent(&open(&killed(&folder)))), (3, 3));
}

#[test]
fn an_operation_that_was_cut_off_was_not_done() {
    let folder = Folder::new();
    let file = open(&folder);
    charge(&file, 1);
    let path = journal(&folder, if fs::metadata(journal(&folder, 'a')).unwrap().len() > 24 { 'a' } else { 'b' });
    let whole = fs::metadata(&path).unwrap().len();
    charge(&file, 2);
    let longer = fs::metadata(&path).unwrap().len();
    for length in [whole, whole + 1, whole + 4, whole + 11, whole + 16, whole + 17, (whole + longer) / 2, longer - 1] {
        let copy = killed(&folder);
        let file = fs::OpenOptions::new().write(true).open(copy.0.join(path.file_name().unwrap())).unwrap();
        file.set_len(length).unwrap();
        drop(file);
        let reopened = open(&copy);
        assert_eq!(spent(&reopened), 1, "{length} bytes of {longer}");
        charge(&reopened, 2);
        assert_eq!(spent(&reopened), 2);
        assert_eq!(fs::read_dir(&copy.0).unwrap().count(), 3, "nothing is worth keeping");
    }
}

#[test]
fn what_comes_after_damage_is_left_out_and_set_aside() {
    let folder = Folder::new();
    let file = open(&folder);
    let path = journal(&folder, if fs::metadata(journal(&folder, 'a')).unwrap().len() > 0 { 'a' } else { 'b' });
    let mut ends = Vec::new();
    for number in 1..=3 {
        charge(&file, number);
        ends.push(usize::try_from(fs::metadata(&path).unwrap().len()).unwrap());
    }
    // Within the second record; within the header: nothing before it, or all of it.
    for (at, left) in [(ends[0] + 20, 1), (ends[0] + 2, 1), (ends[0] + 5, 1), (ends[0] + 9, 1), (ends[1] - 1, 1), (3, 0), (10, 0)] {
        let copy = killed(&folder);
        let damaged = copy.0.join(path.file_name().unwrap());
        let mut bytes = fs::read(&damaged).unwrap();
        bytes[at] ^= 0x40;
        fs::write(&damaged, &bytes).unwrap();
        let reopened = open(&copy);
        assert_eq!(spent(&reopened), left, "damaged at {at}");
        charge(&reopened, 9);
        drop(reopened);
        assert_eq!(spent(&open(&copy)), left + 1);
        let aside = fs::read_dir(&copy.0).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
        assert!(aside.into_iter().any(|kept| kept == bytes), "a copy is kept");
    }
    // A generation after one that is damaged is not read either.
    assert!(file.shared.freeze().unwrap().is_some());
    charge(&file, 4);
    let copy = killed(&folder);
    fs::OpenOptions::new().write(true).open(copy.0.join(path.file_name().unwrap())).unwrap().set_len(ends[1] as u64 - 1).unwrap();
    assert_eq!(spent(&open(&copy)), 1);
}

#[test]
fn a_header_that_is_damaged_hides_nothing_of_the_other_file() {
    let folder = Folder::new();
    let file = open(&folder);
    charge(&file, 1);
    let older = journal(&folder, if fs::metadata(journal(&folder, 'a')).unwrap().len() > 0 { 'a' } else { 'b' });
    assert!(file.shared.freeze().unwrap().is_some());
    charge(&file, 2);
    for half in ['a', 'b'] {
        let copy = killed(&folder);
        let mut bytes = fs::read(journal(&copy, half)).unwrap();
        bytes[10] ^= 0x40;
        fs::write(journal(&copy, half), &bytes).unwrap();
        // What follows the older one cannot be used without it.
        let left = u64::from(journal(&folder, half) != older);
        let reopened = open(&copy);
        assert_eq!(spent(&reopened), left, "{half}");
        charge(&reopened, 9);
        drop(reopened);
        assert_eq!(spent(&open(&copy)), left + 1);
        let aside = fs::read_dir(&copy.0).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
        assert!(aside.into_iter().any(|kept| kept == bytes), "a copy is kept");
    }
}

#[test]
fn an_old_journal_is_not_read_again() {
    let folder = Folder::new();
    let file = open(&folder);
    charge(&file, 1);
    let old = killed(&folder);
    file.shared.checkpoint(BEGIN_MS).unwrap();
    charge(&file, 2);
    file.shared.checkpoint(BEGIN_MS).unwrap();
    let copy = killed(&folder);
    for half in ['a', 'b'] {
        fs::copy(journal(&old, half), journal(&copy, half)).unwrap();
    }
    assert_eq!(spent(&open(&copy)), 2);
}

#[test]
fn one_process_has_it_and_nobody_else_may_read_it() {
    let folder = Folder::new();
    let file = open(&folder);
    let error = File::open(folder.0.join("ledger"), NEVER).unwrap_err();
    assert!(error.0.ends_with("is in use by another process"), "{error}");
    for entry in fs::read_dir(&folder.0).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    drop(file);
    open(&folder);
    let error = File::open(folder.0.join("ledger/below"), NEVER).unwrap_err();
    assert!(error.0.contains("cannot be made"), "{error}");
}

#[test]
fn what_is_old_is_removed_little_by_little() {
    let folder = Folder::new();
    let file = open(&folder);
    let asked = request("a", 10);
    let reserved = file.with(BEGIN_MS, |mut ledger| ledger.reserve(&asked)).unwrap();
    let standing = file.with(BEGIN_MS, |mut ledger| ledger.reserve(&request("b", 1))).unwrap().reservation_id;
    file.with(BEGIN_MS, |mut ledger| ledger.release(&reserved.reservation_id, "c")).unwrap();
    charge(&file, 0);
    let rows = |later_ms: u64, number: u64| {
        charge(&file, number);
        file.shared.checkpoint(BEGIN_MS + later_ms).unwrap();
        [Table::Answers, Table::Reservations, Table::Entries].map(|table| count(&file, table))
    };
    assert_eq!(rows(KEPT_MS, 1), [5, 2, 2]);
    assert_eq!(rows(KEPT_MS + 1, 2), [2, 1, 3], "the answers, and what was settled");
    assert_eq!(rows(ENTRY_KEPT_MS, 3)[2], 4);
    assert_eq!(rows(ENTRY_KEPT_MS + 2, 4)[2], 3, "the first two lines of the books");
    let commit = file.with(BEGIN_MS, |mut ledger| ledger.commit(&standing, "d", &[])).unwrap();
    assert_eq!(commit.charged, [Amount::new(Unit::Credits, 1)], "what stands stays");
}

/// One step of a life that a ledger in memory leads too.
#[derive(Debug, Clone)]
enum Step {
    Reserve(u64),
    Commit(usize, u64),
    Release(usize),
    Extend(usize),
    Event(u64),
    Wait(u64),
    Fund(u64),
    Freeze,
    Checkpoint,
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u64..200).prop_map(Step::Reserve),
        (any::<usize>(), 0u64..300).prop_map(|(which, amount)| Step::Commit(which, amount)),
        any::<usize>().prop_map(Step::Release),
        any::<usize>().prop_map(Step::Extend),
        (0u64..50).prop_map(Step::Event),
        // Less than a day in all: after that each forgets in its own time.
        (0u64..1_400_000).prop_map(Step::Wait),
        (0u64..100).prop_map(Step::Fund),
        Just(Step::Freeze),
        Just(Step::Checkpoint),
        Just(Step::Kill),
    ]
}

/// Does the same on a ledger wherever it is kept; tells what came of it.
macro_rules! act {
    ($place:expr, $now:expr, $step:expr, $ids:expr, $key:expr) => {
        $place.with($now, |mut ledger| {
            let (id, key) = (|which: &usize| $ids.get(which % $ids.len().max(1)).cloned().unwrap_or_default(), $key);
            Ok(match $step {
                Step::Reserve(amount) => format!("{:?}", ledger.reserve(&request(key, *amount))?),
                Step::Commit(which, amount) => format!("{:?}", ledger.commit(&id(which), key, &[Amount::new(Unit::Credits, *amount)])?),
                Step::Release(which) => format!("{:?}", ledger.release(&id(which), key)?),
                Step::Extend(which) => format!("{:?}", ledger.extend(&id(which), key, 1000)?),
                Step::Event(amount) => format!("{:?}", ledger.event(&event(key, *amount))?),
                Step::Wait(_) => format!("{:?}", ledger.expire()?),
                Step::Fund(amount) => format!("{:?}", ledger.fund(TENANT, Amount::new(Unit::Credits, *amount), key)?),
                Step::Freeze | Step::Checkpoint | Step::Kill => String::new(),
            })
        })
    };
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn it_answers_as_one_in_memory(steps in proptest::collection::vec(step(), 1..60)) {
        let (memory, mut folder) = (Memory::default(), Folder::new());
        let mut file = open(&folder);
        let (mut now_ms, mut ids) = (BEGIN_MS, Vec::<String>::new());
        let terms = Terms { allocated: Some(1000), overdraft_limit: Some(100), ..Terms::default() };
        memory.with(now_ms, |mut ledger| ledger.allocate(TENANT, Unit::Credits, &terms)).unwrap();
        file.with(now_ms, |mut ledger| ledger.allocate(TENANT, Unit::Credits, &terms)).unwrap();
        for (number, step) in steps.iter().enumerate() {
            match step {
                Step::Wait(ms) => now_ms += ms,
                Step::Freeze => drop(file.shared.freeze().unwrap()),
                Step::Checkpoint => file.shared.checkpoint(now_ms).unwrap(),
                Step::Kill => {
                    let copy = killed(&folder);
                    drop(file);
                    folder = copy;
                    file = open(&folder);
                }
                _ => {}
            }
            let key = (number / 2).to_string();
            let told = act!(memory, now_ms, step, ids, &key);
            prop_assert_eq!(&told, &act!(file, now_ms, step, ids, &key), "{:?}", step);
            if let (Step::Reserve(_), Ok(_)) = (step, &told) {
                let place = crate::budget::ledger::place("reserve", &subject(), &key);
                ids.push(crate::budget::ledger::reservation_id(&place));
            }
            prop_assert_eq!(memory.balances(), file.reading().balances().unwrap());
        }
        prop_assert_eq!(memory.entries(0, u64::MAX, usize::MAX), file.reading().entries(0, u64::MAX, usize::MAX).unwrap());
    }
}

#[test]
fn a_refusal_writes_nothing() {
    let folder = Folder::new();
    let file = open(&folder);
    charge(&file, 1);
    let length = || ['a', 'b'].map(|half| fs::metadata(journal(&folder, half)).unwrap().len());
    let before = length();
    let refused = file.with(BEGIN_MS, |mut ledger| ledger.commit("rsv_x", "k", &[]));
    assert!(matches!(refused, Err(Error::Refused(refusal)) if refusal.code == Code::NotFound));
    charge(&file, 1);
    assert_eq!(length(), before, "nor does an answer that is given again");
}
