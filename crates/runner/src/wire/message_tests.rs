//! Requests and answers mean the same on both sides, and whatever is no request has a fixed answer.

use codespace_domain::{
    Encoding, ErrorCode, ListReply, ListRequest, Notification, OutputNotice, ProcessId, ReadReply, Reply, Request,
    RunnerError, SignalName, SignalRequest, Stage, State, StopReply, StopRequest, Stream, SubscribeRequest,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::message::{
    Answer, Asked, Call, INVALID_PARAMS, INVALID_REQUEST, Id, Incoming, METHOD_NOT_FOUND, Outgoing, RUNNER_ERROR,
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
    assert_eq!(id, Some(Id::Number(7.into())));
    assert_eq!(got, sent);
}

#[test]
fn a_subscription_and_what_it_tells_are_the_same_on_both_sides() {
    let sent = SubscribeRequest { cursor: 5, encoding: Encoding::Base64, ..SubscribeRequest::new(ProcessId::mint()) };
    let text = serde_json::to_string(&Outgoing::subscribe(7, &sent)).unwrap();
    assert_eq!(asked(&text).unwrap(), (Some(Id::Number(7.into())), Asked::Subscribe(sent.clone())));
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
fn ids_are_numbers_or_strings_and_come_back_as_they_were() {
    for id in [json!(1), json!(-5), json!(1.5), json!("a"), json!("")] {
        let text = json!({"jsonrpc": "2.0", "id": id, "method": "stop"}).to_string();
        let (got, _) = request(&text).unwrap();
        let outcome = Ok(Reply::Stop(StopReply { ended: 3 }));
        let answer = serde_json::to_value(Response::new(&got.unwrap(), &outcome)).unwrap();
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": id, "result": {"ended": 3}}));
    }
    for id in [json!(null), json!([1]), json!({}), json!(true)] {
        let text = json!({"jsonrpc": "2.0", "id": id, "method": "stop"}).to_string();
        assert_eq!(request(&text).unwrap_err()["error"]["code"], INVALID_REQUEST);
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
    let text = "[".repeat(1_000_000);
    assert_eq!(request(&text).unwrap_err()["error"]["code"], INVALID_REQUEST);
}

#[test]
fn a_runner_error_crosses_the_wire_whole() {
    let error = RunnerError::spawn_failed(Stage::Exec, Some(2), "start \"nope\"").with_hint("install it");
    let outcome = Err(error.clone());
    let text = serde_json::to_string(&Response::new(&Id::Number(1.into()), &outcome)).unwrap();
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

proptest! {
    #[test]
    fn no_bytes_can_do_worse_than_a_fault(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(call) = Call::parse(&bytes) {
            let _either = call.into_asked();
        }
    }
}
