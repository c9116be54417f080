//! Calls against a server that limits windows, splits headers, refuses and stalls; and against the
//! recorded answers of a real one.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use super::*;

/// What a server read of a call.
#[derive(Debug, Default)]
struct Seen {
    headers: Vec<hpack::Field>,
    message: Vec<u8>,
}

fn method(address: SocketAddr) -> Method {
    let headers = vec![("x-scope-orgid".to_owned(), "team".to_owned())];
    Method { authority: address.to_string(), path: "/a.B/C", headers }
}

/// A server for one call: reads it with a window of `window` bytes, then answers with `frames`.
fn serve(window: u32, frames: Vec<Frame>) -> (SocketAddr, thread::JoinHandle<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).unwrap();
        assert_eq!(preface, PREFACE);
        let settings = [(setting::INITIAL_WINDOW_SIZE, window), (setting::MAX_FRAME_SIZE, 16_384)];
        Frame::settings(&settings).write(&mut stream).unwrap();
        Frame::new(kind::PING, 0, 0, vec![7; 8]).write(&mut stream).unwrap();
        let mut seen = Seen::default();
        loop {
            let frame = Frame::read(&mut stream).unwrap();
            match frame.kind {
                kind::SETTINGS | kind::PING => {}
                kind::HEADERS => seen.headers = hpack::decode(frame.content().unwrap()).unwrap(),
                kind::DATA => {
                    let bytes = frame.payload.len() as u32;
                    seen.message.extend(&frame.payload);
                    if frame.has(flag::END_STREAM) {
                        break;
                    }
                    Frame::window_update(0, bytes).write(&mut stream).unwrap();
                    Frame::window_update(STREAM, bytes).write(&mut stream).unwrap();
                }
                other => panic!("frame of kind {other}"),
            }
        }
        frames.iter().for_each(|frame| frame.write(&mut stream).unwrap());
        // The client reads at its own pace; it closes the connection.
        let _ = stream.read_to_end(&mut Vec::new());
        seen
    });
    (address, server)
}

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| hpack::encode(name, value, &mut block));
    block
}

fn success() -> Vec<Frame> {
    let trailers = block(&[("grpc-status", "0")]);
    let (first, second) = trailers.split_at(5);
    vec![
        // An update of the table's size to 0, then `:status 200`.
        Frame::new(kind::HEADERS, flag::END_HEADERS, STREAM, vec![0x20, 0x88]),
        Frame::new(kind::DATA, flag::PADDED, STREAM, vec![1, 0, 0, 0, 0, 2, b'o', b'k', 0]),
        Frame::new(kind::HEADERS, flag::END_STREAM, STREAM, first.to_vec()),
        Frame::new(kind::CONTINUATION, flag::END_HEADERS, STREAM, second.to_vec()),
    ]
}

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_call_respects_windows_of_any_size() {
    for (window, length) in [(65_535, 10), (100, 200_000), (1000, 70_000), (1 << 20, 300_000)] {
        let (address, server) = serve(window, success());
        let message: Vec<u8> = (0..length).map(|n: u32| n as u8).collect();
        let status = method(address).call(&message, LIMIT).unwrap();
        assert_eq!(status, Status { code: 0, message: String::new(), response: b"ok".to_vec() });
        let seen = server.join().unwrap();
        assert_eq!(seen.message[..5], [&[0][..], &length.to_be_bytes()].concat());
        assert!(seen.message[5..] == message, "window {window}");
        let header =
            |name: &str| seen.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value);
        assert_eq!(header(":path"), Some("/a.B/C"));
        assert_eq!(header(":authority"), Some(&*address.to_string()));
        assert_eq!(header("content-type"), Some("application/grpc"));
        assert_eq!(header("te"), Some("trailers"));
        assert_eq!(header("x-scope-orgid"), Some("team"));
    }
}

#[test]
fn errors_have_a_code_and_a_message() {
    let fields = [(":status", "200"), ("grpc-status", "14"), ("grpc-message", "try later")];
    let flags = flag::END_HEADERS | flag::END_STREAM;
    let (address, server) = serve(1000, vec![Frame::new(kind::HEADERS, flags, STREAM, block(&fields))]);
    let status = method(address).call(b"x", LIMIT).unwrap();
    assert_eq!((status.code, &*status.message), (14, "try later"));
    server.join().unwrap();
}

#[test]
fn broken_answers_are_errors() {
    let flags = flag::END_HEADERS | flag::END_STREAM;
    for frame in [
        Frame::new(kind::RST_STREAM, 0, STREAM, vec![0, 0, 0, 2]),
        Frame::new(kind::GOAWAY, 0, 0, vec![0; 8]),
        Frame::new(kind::HEADERS, flags, STREAM, vec![0xff]),
        Frame::new(kind::HEADERS, flags, STREAM, block(&[(":status", "404")])),
    ] {
        let (address, server) = serve(1000, vec![frame.clone()]);
        assert!(method(address).call(b"x", LIMIT).is_err(), "{frame:?}");
        server.join().unwrap();
    }
}

#[test]
fn a_server_of_another_protocol_or_none_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    });
    assert!(method(address).call(b"x", LIMIT).is_err());
    server.join().unwrap();
    // Nothing listens there any more.
    assert!(method(address).call(b"x", LIMIT).is_err());
}

#[test]
fn a_silent_server_costs_the_time_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let started = Instant::now();
    assert!(method(address).call(&vec![0; 100_000], Duration::from_millis(200)).is_err());
    assert!(started.elapsed() >= Duration::from_millis(200));
}

/// The bytes of a server of grpcio 1.85 (Python) during a call of this client, recorded once: its
/// settings, with parameters that the client does not know, and its answer.
const RECORDED: &str = "\
    000018040000000000000400400000000500400000000600004000fe030000000100000408000000\
    0000003f00010000000401000000000000040800000000000000022f00000806000000000072b142\
    a1de2035d900004f0104000000012088400c636f6e74656e742d74797065106170706c6963617469\
    6f6e2f677270634014677270632d6163636570742d656e636f64696e67176964656e746974792c20\
    6465666c6174652c20677a6970000005000000000001000000000000001e010500000001400b6772\
    70632d7374617475730130000c677270632d6d65737361676500\
";

#[test]
fn the_recorded_answer_of_a_real_server_is_understood() {
    let byte = |at: usize| u8::from_str_radix(&RECORDED[at..at + 2], 16).unwrap();
    let recorded: Vec<u8> = (0..RECORDED.len()).step_by(2).map(byte).collect();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&recorded).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let status = method(address).call(b"x", LIMIT).unwrap();
    assert_eq!(status, Status { code: 0, message: String::new(), response: Vec::new() });
    server.join().unwrap();
}
