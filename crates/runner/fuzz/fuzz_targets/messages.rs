//! Any payload: a request or a fault, and each means the same to whoever reads it again.
#![no_main]

use codespace_runner::wire::message::{Asked, Call, Incoming, Outgoing, ReplyKind};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|payload: &[u8]| {
    match Call::parse(payload).and_then(Call::into_asked) {
        Ok((id, asked)) => {
            let sent = match &asked {
                Asked::Request(request) => serde_json::to_vec(&Outgoing::new(1, request)),
                Asked::Subscribe(request) => serde_json::to_vec(&Outgoing::subscribe(1, request)),
            };
            let (_, read) = Call::parse(&sent.expect("can be written"))
                .and_then(Call::into_asked)
                .expect("what is written is read");
            assert_eq!(read, asked);
            let text = std::str::from_utf8(payload).expect("a request is UTF-8");
            assert!(id.is_none_or(|id| text.contains(id.as_json())), "the id is the client's own");
            // Whatever a Runner might answer to it.
            if let Asked::Request(request) = &asked {
                drop(ReplyKind::of(request).decode(serde_json::from_slice(payload).unwrap_or(Value::Null)));
            }
        }
        Err(fault) => {
            let answer = serde_json::to_vec(&fault.response()).expect("a fault can be written");
            let Ok(Incoming::Answer(read)) = Incoming::parse(&answer) else { panic!("an answer is read") };
            assert_eq!(read.id, fault.id);
            assert!(read.into_outcome().is_err());
        }
    }
    if let Ok(Incoming::Answer(answer)) = Incoming::parse(payload) {
        drop(answer.into_outcome());
    }
});
