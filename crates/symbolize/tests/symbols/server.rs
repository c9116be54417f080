//! debuginfod: requests by build-id, caching, verification.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::PathBuf,
    sync::{Arc, Mutex},
    thread,
};

use heapwise_symbolize::{Detail, Options, Problem, symbolize};

use crate::{program::Program, witness};

/// Serves one file under one path, and records the requests.
fn serve(path: String, file: PathBuf) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<_> = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let target = head[0].split(' ').nth(1).unwrap().to_owned();
            let (status, body) = if target == path {
                ("200 OK", fs::read(&file).unwrap())
            } else {
                ("404 Not Found", Vec::new())
            };
            log.lock().unwrap().push(target);
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).unwrap();
        }
    });
    (url, asked)
}

#[test]
fn debug_information_is_fetched_once_and_only_if_it_is_the_right_build() {
    let program = Program::cpp(&["-g", "-O2"]);
    let addresses = witness::addresses(&program);
    let frames = witness::addr2line(&program, &addresses);
    let id = program.build_id();
    program.run(&["objcopy", "--only-keep-debug", "shop", "served"]);
    program.run(&["strip", "--strip-all", "shop"]);
    let (url, asked) = serve(format!("/buildid/{id}/debuginfo"), program.path("served"));
    let mut options = Options {
        cache_dir: Some(program.path("cache")),
        debuginfod_urls: vec![format!("{url}/")],
        ..Options::default()
    };
    let mut profile = program.profile(&addresses);
    let report = symbolize(&mut profile, &options);
    assert_eq!(report.modules[0].detail, Detail::Lines, "{report:?}");
    for (location, expected) in profile.locations.iter().zip(&frames) {
        assert_eq!(witness::frames(&profile, location), *expected);
    }
    assert_eq!(asked.lock().unwrap().len(), 1);
    symbolize(&mut program.profile(&addresses), &options);
    assert_eq!(asked.lock().unwrap().len(), 1);

    program.run(&["g++", "-g", "-O0", "-o", "served", "shop.cc"]);
    options.cache_dir = Some(program.path("other-cache"));
    let report = symbolize(&mut program.profile(&addresses), &options);
    assert_eq!((report.modules[0].detail, report.resolved), (Detail::None, 0));
}

#[test]
fn a_server_that_is_not_there_is_a_problem_to_report() {
    let program = Program::cpp(&["-O2"]);
    let options = Options {
        cache_dir: Some(program.path("cache")),
        debuginfod_urls: vec!["http://127.0.0.1:9".to_owned()],
        ..Options::default()
    };
    let report = symbolize(&mut program.profile(&witness::addresses(&program)), &options);
    assert!(matches!(report.modules[0].problems[..], [Problem::Debuginfod { .. }]), "{report:?}");
    assert_eq!(report.modules[0].detail, Detail::Names);
    let again = symbolize(&mut program.profile(&witness::addresses(&program)), &options);
    assert_eq!(again.modules[0].problems, [Problem::NoDebugInfo], "it is not waited for again at once");
}
