use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::*;

fn add_files(folder: &Path, files: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { add_files(&path, files) } else { assert!(files.insert(path)) }
    }
}

#[test]
fn every_file_of_the_page_is_served() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let mut files = BTreeSet::new();
    add_files(&folder, &mut files);
    // The licence of the third-party code is in the repository, but is not part of the page.
    assert!(files.remove(&folder.join("uplot/LICENSE")));
    assert_eq!(FILES.iter().map(|(path, _)| folder.join(path)).collect::<BTreeSet<_>>(), files);
}

#[test]
fn every_file_has_a_content_type_and_the_content_security_policy() {
    for (path, _) in &FILES {
        let answer = serve(path, &HeaderMap::new());
        assert_eq!(answer.status(), StatusCode::OK);
        assert_ne!(answer.headers()[CONTENT_TYPE], "application/octet-stream", "{path}");
        assert_eq!(answer.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        let policy = answer.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    }
}

#[test]
fn a_file_that_the_browser_already_has_is_not_sent_again() {
    let first = serve("app.js", &HeaderMap::new());
    let headers = HeaderMap::from_iter([(IF_NONE_MATCH, first.headers()[ETAG].clone())]);
    assert_eq!(serve("app.js", &headers).status(), StatusCode::NOT_MODIFIED);
    assert_eq!(serve("style.css", &headers).status(), StatusCode::OK);
}

#[test]
fn a_path_that_is_not_a_file_of_the_page_is_not_found() {
    for path in ["", "../Cargo.toml", "uplot/LICENSE", "views", "index.html/"] {
        assert_eq!(serve(path, &HeaderMap::new()).status(), StatusCode::NOT_FOUND, "{path}");
    }
}
