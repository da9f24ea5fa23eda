//! Requests and answers mean the same on both sides, and whatever is no request has a fixed answer.

use codespace_domain::{
    Encoding, ErrorCode, ListReply, ListRequest, Notification, OutputNotice, ProcessId, ReadReply, Reply, Request,
    RunnerError, SignalName, SignalRequest, Stage, State, StopReply, StopRequest, Stream, SubscribeRequest,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::id::{Id, MAX_ID};
use super::message::{
    Answer, Asked, Call, INVALID_PARAMS, INVALID_REQUEST, Incoming, METHOD_NOT_FOUND, Outgoing, RUNNER_ERROR,
    ReplyKind, Response, Told,
};

fn request(text: &str) -> Result<(Option<Id>, Request), Value> {
    match asked(text)? {
        (id, Asked::Request(request)) => Ok((id, request)),
        (_, Asked::Subscribe(params)) => panic!("a subscription: {params:?}"),
    }
}

fn asked(text: &str) -> Result<(Option<Id>, Asked), Value> {
    let parsed = Call::parse(text.as_bytes()).and_then(Call::into_asked);
    parsed.map_err(|fault| serde_json::to_value(fault.response()).unwrap())
}

fn answer(text: &str) -> Answer {
    match Incoming::parse(text.as_bytes()).unwrap() {
        Incoming::Answer(answer) => answer,
        other => panic!("no answer: {other:?}"),
    }
}

#[test]
fn a_request_that_one_side_writes_is_the_request_that_the_other_reads() {
    let sent = Request::SignalProcess(SignalRequest { process_id: ProcessId::mint(), signal: SignalName::Hup });
    let text = serde_json::to_string(&Outgoing::new(7, &sent)).unwrap();
    let (id, got) = request(&text).unwrap();
    assert_eq!(id, Some(id_of("7")));
    assert_eq!(got, sent);
}

fn id_of(text: &str) -> Id {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_subscription_and_what_it_tells_are_the_same_on_both_sides() {
    let sent = SubscribeRequest { cursor: 5, encoding: Encoding::Base64, ..SubscribeRequest::new(ProcessId::mint()) };
    let text = serde_json::to_string(&Outgoing::subscribe(7, &sent)).unwrap();
    assert_eq!(asked(&text).unwrap(), (Some(id_of("7")), Asked::Subscribe(sent.clone())));
    let unknown = text.replace("cursor", "cursors");
    assert_eq!(asked(&unknown).unwrap_err()["error"]["code"], INVALID_PARAMS);

    let read = ReadReply {
        process_id: sent.process_id,
        cursor: 8,
        chunk: "abc".into(),
        encoding: Encoding::Utf8,
        eof: false,
        output_lost: true,
        retained_from: 5,
        total: 9,
        state: State::Running,
    };
    let told = Notification::Output(OutputNotice { read, stream: Stream::Stderr });
    let value = serde_json::to_value(Told::new(&told)).unwrap();
    assert_eq!((&value["jsonrpc"], &value["method"]), (&json!("2.0"), &json!("output")));
    assert_eq!((&value["params"]["chunk"], &value["params"]["stream"]), (&json!("abc"), &json!("stderr")));
    assert!(value.get("id").is_none());
    match Incoming::parse(value.to_string().as_bytes()).unwrap() {
        Incoming::Told(got) => assert_eq!(*got, told),
        other => panic!("{other:?}"),
    }
    let newer = r#"{"jsonrpc":"2.0","method":"weather","params":{"sun":true}}"#;
    assert!(matches!(Incoming::parse(newer.as_bytes()), Ok(Incoming::Unknown)));
}

#[test]
fn an_id_comes_back_byte_for_byte() {
    let ids = [
        "1",
        "-5",
        "1.5",
        "1.0",
        "1e3",
        "-0",
        "1E+400",
        "123456789012345678901234567890",
        "0.1000000000000000055511151231257827021181583404541015625",
        r#""""#,
        r#""a \" \u0041\/ é""#,
        r#""\ud83d\ude00""#,
    ];
    for id in ids {
        let text = format!(r#"{{ "jsonrpc": "2.0", "id": {id} , "method": "stop" }}"#);
        let (got, _) = request(&text).unwrap();
        let outcome = Ok(Reply::Stop(StopReply { ended: 3 }));
        let answer = serde_json::to_string(&Response::new(&got.unwrap(), &outcome)).unwrap();
        assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"ended":3}}}}"#));
        let wrong = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"fork_bomb"}}"#);
        let fault = Call::parse(wrong.as_bytes()).and_then(Call::into_asked).unwrap_err();
        let answer = serde_json::to_string(&fault.response()).unwrap();
        assert!(answer.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error""#)), "{answer}");
    }
}

#[test]
fn what_is_no_id_is_refused_with_the_reason() {
    let longest = format!(r#""{}""#, "x".repeat(MAX_ID - 2));
    assert!(request(&format!(r#"{{"jsonrpc":"2.0","id":{longest},"method":"stop"}}"#)).is_ok());
    let cases = [
        ("null".to_owned(), "neither a number nor a string"),
        ("[1]".to_owned(), "neither a number nor a string"),
        ("{}".to_owned(), "neither a number nor a string"),
        ("true".to_owned(), "neither a number nor a string"),
        (r#""\ud800""#.to_owned(), "no text"),
        (format!(r#""{}""#, "x".repeat(MAX_ID - 1)), "1025 bytes"),
        ("1".repeat(MAX_ID + 1), "1025 bytes"),
        ("01".to_owned(), "JSON"),
        ("1.".to_owned(), "JSON"),
        ("+1".to_owned(), "JSON"),
        ("NaN".to_owned(), "JSON"),
    ];
    for (id, word) in cases {
        let answer = request(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"stop"}}"#)).unwrap_err();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(INVALID_REQUEST), &json!(null)), "{id}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(word), "{id}: {answer}");
    }
}

#[test]
fn a_member_that_is_there_twice_is_refused_and_never_one_of_the_two_taken() {
    let cases = [
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"stop"}"#, INVALID_REQUEST, json!(null), "duplicate field `id`"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"stop","m\u0065thod":"hello"}"#, INVALID_REQUEST, json!(null), "`method`"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"stop","params":{"grace_ms":1,"grace_ms":2}}"#,
            INVALID_PARAMS,
            json!(1),
            "take the params of stop: duplicate field `grace_ms`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"exec","params":{"workspace_id":"w","command":["a"],"limits":{"pids":1,"pids":2}}}"#,
            INVALID_PARAMS,
            json!(1),
            "duplicate field `pids`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"exec","params":{"workspace_id":"w","command":["a"],"env":{"A":"1","A":null}}}"#,
            INVALID_PARAMS,
            json!(1),
            "duplicate name `A`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"exec","params":{"workspace_id":"w","command":[{"base64":"YQ==","base64":"Yg=="}]}}"#,
            INVALID_PARAMS,
            json!(1),
            "base64",
        ),
    ];
    for (text, code, id, word) in cases {
        let answer = request(text).unwrap_err();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{text}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(word), "{text}: {message}");
    }
}

#[test]
fn numbers_that_are_none_of_ours_are_refused_with_the_id() {
    for number in ["-1", "1.0", "1e3", "18446744073709551616", "1e400", "\"1\"", "null", "[1]"] {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"read_process","params":{{"process_id":"{}","cursor":{number}}}}}"#,
            ProcessId::mint()
        );
        let answer = request(&text).unwrap_err();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(INVALID_PARAMS), &json!(1)), "{number}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(!message.contains(" at line "), "{message}");
    }
}

#[test]
fn params_may_be_left_out_where_each_is_optional() {
    let (id, got) = request(r#"{"jsonrpc":"2.0","method":"list_processes"}"#).unwrap();
    assert_eq!((id, got), (None, Request::ListProcesses(ListRequest::default())));
}

#[test]
fn what_is_no_request_has_a_fixed_answer() {
    let cases = [
        ("{", INVALID_REQUEST, json!(null), "JSON"),
        ("\u{1}\u{2}", INVALID_REQUEST, json!(null), "JSON"),
        ("", INVALID_REQUEST, json!(null), "JSON"),
        ("{} {}", INVALID_REQUEST, json!(null), "JSON"),
        ("7", INVALID_REQUEST, json!(null), "no object"),
        ("[]", INVALID_REQUEST, json!(null), "batch"),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"stop"}]"#, INVALID_REQUEST, json!(null), "batch"),
        (r#"{"id":1,"method":"stop"}"#, INVALID_REQUEST, json!(1), "jsonrpc"),
        (r#"{"jsonrpc":"2.0","id":1}"#, INVALID_REQUEST, json!(1), "method"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, INVALID_REQUEST, json!(1), "method"),
        (r#"{"jsonrpc":"2.0","id":"x","method":"fork_bomb"}"#, METHOD_NOT_FOUND, json!("x"), "fork_bomb"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"stop","params":[5]}"#, INVALID_PARAMS, json!(1), "no object"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"stop","params":{"grace":5}}"#, INVALID_PARAMS, json!(1), "`grace`"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"close_stdin"}"#, INVALID_PARAMS, json!(1), "`process_id`"),
    ];
    for (text, code, id, word) in cases {
        let answer = request(text).unwrap_err();
        assert_eq!(answer["error"]["code"], code, "{text}");
        assert_eq!(answer["id"], id, "{text}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(word), "{text}: {answer}");
        assert!(answer.get("result").is_none());
    }
}

#[test]
fn deep_nesting_is_an_answer_and_no_overflow() {
    let (open, close) = ("[".repeat(1_000_000), "]".repeat(1_000_000));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(200_000), "}".repeat(200_000));
    let cases = [
        (open.clone(), INVALID_REQUEST),
        (format!("{open}{close}"), INVALID_REQUEST),
        (objects.clone(), INVALID_REQUEST),
        (format!(r#"{{"jsonrpc":"2.0","id":1,"method":"stop","params":{objects}}}"#), INVALID_PARAMS),
        (
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"stop","params":{{"grace_ms":{open}{close}}}}}"#),
            INVALID_PARAMS,
        ),
        (format!(r#"{{"jsonrpc":"2.0","id":{open}{close},"method":"stop"}}"#), INVALID_REQUEST),
        (format!(r#"{{"jsonrpc":"2.0","id":1,"method":{objects}}}"#), INVALID_REQUEST),
    ];
    for (text, code) in cases {
        assert_eq!(request(&text).unwrap_err()["error"]["code"], code, "{}...", &text[..60]);
    }
}

#[test]
fn bytes_that_are_no_utf_8_are_refused_wherever_they_are() {
    for text in [
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"stop\",\"\xff\":1}".as_slice(),
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"stop\",\"x\":\"\xc3\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":\"\xed\xa0\x80\",\"method\":\"stop\"}",
        b"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"stop\"}",
    ] {
        let fault = Call::parse(text).unwrap_err();
        assert_eq!((fault.id, fault.error.code), (None, INVALID_REQUEST));
    }
}

#[test]
fn a_runner_error_crosses_the_wire_whole() {
    let error = RunnerError::spawn_failed(Stage::Exec, Some(2), "start \"nope\"").with_hint("install it");
    let outcome = Err(error.clone());
    let text = serde_json::to_string(&Response::new(&id_of("1"), &outcome)).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["error"]["code"], RUNNER_ERROR);
    assert_eq!(value["error"]["data"]["stage"], "exec");
    assert_eq!(answer(&text).into_outcome().unwrap_err(), error);
}

#[test]
fn an_error_of_another_version_is_still_an_error_with_its_words() {
    let text = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "fold space",
        "data": {"code": "SPACE_FOLDED", "message": "fold space"}}})
    .to_string();
    let error = answer(&text).into_outcome().unwrap_err();
    assert_eq!(error.code, ErrorCode::Internal);
    assert!(error.message.contains("fold space"));
}

#[test]
fn a_result_is_read_as_what_was_asked() {
    let list = ReplyKind::of(&Request::ListProcesses(ListRequest::default()));
    assert_eq!(list.decode(json!({"processes": []})).unwrap(), Reply::List(ListReply { processes: vec![] }));
    let stop = ReplyKind::of(&Request::Stop(StopRequest::default()));
    assert_eq!(stop.decode(json!({"ended": 1})).unwrap(), Reply::Stop(StopReply { ended: 1 }));
    assert!(stop.decode(json!({"processes": []})).is_err());
}

/// Bytes that look like a message, broken somewhere or not at all.
fn nearly_a_message() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            r#""jsonrpc":"2.0""#,
            r#""id":1"#,
            r#""id":123456789012345678901234567890"#,
            r#""id":"x""#,
            r#""id":null"#,
            r#""method":"stop""#,
            r#""method":"exec""#,
            r#""method":"terminate_process""#,
            r#""params":{}"#,
            r#""params":{"grace_ms":1}"#,
            r#""params":{"workspace_id":"w","command":["a",{"base64":"/w=="}],"env":{"A":null}}"#,
            r#""params":{"workspace_id":"w","process_key":"k"}"#,
            "{",
            "}",
            "[",
            ",",
            "\"",
            "\\u",
            "1e999",
        ])
        .prop_map(|piece| piece.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    let joined =
        prop::collection::vec(piece, 0..7).prop_map(|pieces| [b"{", pieces.join(&b","[..]).as_slice(), b"}"].concat());
    prop_oneof![joined, prop::collection::vec(any::<u8>(), 0..200)]
}

proptest! {
    #[test]
    fn no_bytes_can_do_worse_than_a_fault_and_a_request_means_the_same_when_it_is_sent_on(bytes in nearly_a_message()) {
        if let Ok((id, asked)) = Call::parse(&bytes).and_then(Call::into_asked) {
            let again = match &asked {
                Asked::Request(request) => serde_json::to_vec(&Outgoing::new(1, request)),
                Asked::Subscribe(request) => serde_json::to_vec(&Outgoing::subscribe(1, request)),
            };
            let (_, read) = Call::parse(&again.unwrap()).and_then(Call::into_asked).unwrap();
            prop_assert_eq!(read, asked);
            if let Some(id) = id {
                let text = std::str::from_utf8(&bytes).unwrap();
                prop_assert!(text.contains(id.as_json()));
            }
        }
        drop(Incoming::parse(&bytes));
    }
}
