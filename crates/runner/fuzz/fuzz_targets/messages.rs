//! Any payload: a request or a fault, and each means the same to whoever reads it again.
#![no_main]

use codespace_runner::wire::message::{Answer, Call, Outgoing, ReplyKind};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|payload: &[u8]| {
    match Call::parse(payload).and_then(Call::into_request) {
        Ok((id, request)) => {
            let sent = serde_json::to_vec(&Outgoing::new(1, &request)).expect("a request can be written");
            let (_, read) = Call::parse(&sent).and_then(Call::into_request).expect("what is written is read");
            assert_eq!(read, request);
            let text = std::str::from_utf8(payload).expect("a request is UTF-8");
            assert!(id.is_none_or(|id| text.contains(id.as_json())), "the id is the client's own");
            // Whatever a Runner might answer to it.
            drop(ReplyKind::of(&request).decode(serde_json::from_slice(payload).unwrap_or(Value::Null)));
        }
        Err(fault) => {
            let answer = serde_json::to_vec(&fault.response()).expect("a fault can be written");
            let read = Answer::parse(&answer).expect("an answer is read");
            assert_eq!(read.id, fault.id);
            assert!(read.into_outcome().is_err());
        }
    }
    drop(Answer::parse(payload).map(Answer::into_outcome));
});
