use super::*;

/// A folder of its own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("toolgate-pins-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("pins.json")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn the_first_definition_counts() {
    let pins = Pins::load(None);
    assert!(!pins.check("files", "read", "1"));
    assert!(!pins.check("files", "read", "1"));
    assert!(pins.check("files", "read", "2"));
    assert!(pins.check("files", "read", "2"), "nobody accepted it");
    assert!(!pins.check("files", "read", "1"), "it is what it was");
    assert!(!pins.check("other", "read", "2"));
    assert!(!pins.sync());
}

#[test]
fn pins_outlive_the_process_in_a_file_that_people_can_read() {
    let folder = Folder::new("outlive");
    let pins = Pins::load(Some(folder.file()));
    pins.check("files", "write", "2");
    pins.check("files", "read", "1");
    pins.sync();
    let text = fs::read_to_string(folder.file()).unwrap();
    assert!(text.contains("\n  \"servers\": {\n    \"files\": {\n      \"read\": {\n        \"hash\": \"1\"\n      },\n"), "{text}");
    let later = Pins::load(Some(folder.file()));
    assert!(later.check("files", "read", "3"));
    assert!(!later.check("files", "write", "2"));
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_change_is_accepted_in_the_file_and_noticed() {
    let folder = Folder::new("accept");
    let pins = Pins::load(Some(folder.file()));
    for (tool, hash) in [("read", "1"), ("write", "2"), ("list", "3")] {
        pins.check("files", tool, hash);
    }
    pins.check("files", "read", "10");
    pins.check("files", "write", "20");
    pins.sync();
    assert_eq!(accept(&folder.file(), |name| name == "files.list").unwrap(), [""; 0]);
    assert_eq!(accept(&folder.file(), |name| name == "files.read").unwrap(), ["files.read"]);
    assert!(pins.sync(), "it is noticed");
    assert!(!pins.sync(), "once");
    assert!(!pins.check("files", "read", "10"));
    assert!(pins.check("files", "read", "1"), "what it was before is a change now");
    assert!(pins.check("files", "write", "20"));
}

#[test]
fn what_is_not_accepted_stays_changed_when_the_file_is_read_again() {
    let folder = Folder::new("stays");
    let pins = Pins::load(Some(folder.file()));
    pins.check("files", "read", "1");
    pins.sync();
    pins.check("files", "read", "2");
    pins.sync();
    pins.check("files", "read", "3");
    // Accepted is what was told, not what came after.
    accept(&folder.file(), |_| true).unwrap();
    pins.sync();
    assert!(pins.check("files", "read", "3"));
    assert!(!pins.check("files", "read", "2"));
}

#[test]
fn a_file_of_something_else_is_left_alone() {
    let folder = Folder::new("foreign");
    for text in ["", "[]", "{\"version\":2,\"servers\":{}}", "{\"version\":1,\"servers\":{\"a\":{\"b\":3}}}", "not JSON"] {
        fs::write(folder.file(), text).unwrap();
        let pins = Pins::load(Some(folder.file()));
        assert!(!pins.check("files", "read", "1"));
        pins.sync();
        assert_eq!(fs::read_to_string(folder.file()).unwrap(), text);
        assert!(accept(&folder.file(), |_| true).is_err());
        assert!(pins.check("files", "read", "2"), "in memory they are kept");
    }
}

#[test]
fn a_file_that_cannot_be_written_does_no_harm_and_is_tried_again() {
    let folder = Folder::new("unwritable");
    let file = folder.0.join("missing").join("pins.json");
    let pins = Pins::load(Some(file.clone()));
    pins.check("files", "read", "1");
    pins.sync();
    assert!(pins.check("files", "read", "2"));
    fs::create_dir(folder.0.join("missing")).unwrap();
    pins.sync();
    assert!(fs::read_to_string(&file).unwrap().contains("\"changed\": \"2\""));
    fs::remove_file(&file).unwrap();
    pins.sync();
    assert!(file.exists(), "a file that was removed is written again");
}

#[test]
fn two_processes_share_a_file() {
    let folder = Folder::new("share");
    let (one, other) = (Pins::load(Some(folder.file())), Pins::load(Some(folder.file())));
    one.check("files", "read", "1");
    one.sync();
    other.check("time", "now", "5");
    other.sync();
    one.sync();
    let third = Pins::load(Some(folder.file()));
    assert!(third.check("files", "read", "2") && third.check("time", "now", "6"));
}

#[test]
fn a_server_fills_no_memory() {
    let pins = Pins::load(None);
    for n in 0..PINS_MAX + 10 {
        pins.check("wild", &n.to_string(), "1");
    }
    assert_eq!(pins.lock().pins.get("wild").unwrap().len(), PINS_MAX);
}
