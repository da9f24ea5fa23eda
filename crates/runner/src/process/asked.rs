//! What stays of a request for as long as its process is known. Never the request itself: its arguments and environment may
//! be of megabytes, may hold secrets, and are of use to nobody once the command has begun.

use std::hash::{DefaultHasher, Hasher as _};

use codespace_domain::{ByteString, ErrorCode, ExecRequest, ProcessKey, RunnerError, WorkspaceId};

/// So many bytes of a command are shown.
const SHOWN: usize = 16 * 1024;

/// The small part of a request.
pub(crate) struct Asked {
    pub(crate) workspace_id: WorkspaceId,
    pub(crate) process_key: Option<ProcessKey>,
    pub(crate) tty: bool,
    /// The argv, without what would make the answer about many processes too large to be sent.
    pub(crate) command: Vec<ByteString>,
    /// Of the whole request; only where a retry may be compared with it.
    hash: Option<u64>,
}

impl Asked {
    pub(super) fn of(request: &ExecRequest) -> Self {
        Self {
            workspace_id: request.workspace_id.clone(),
            process_key: request.process_key.clone(),
            tty: request.tty,
            command: shortened(&request.command),
            hash: request.process_key.is_some().then(|| hash(request)),
        }
    }

    /// Whether `new`, with the same key, is a retry of this.
    pub(super) fn is_retried_by(&self, new: &Self) -> Result<(), RunnerError> {
        if self.hash == new.hash {
            return Ok(());
        }
        let message = "start a command: another request has this process_key already".to_owned();
        // Not `about` the existing process: an error that names a process is about that one's own fate.
        Err(RunnerError::new(ErrorCode::KeyConflict, message).with_hint("use a new key for a new request"))
    }
}

/// `wait_ms` only says how long the caller wants to wait for the answer.
fn hash(request: &ExecRequest) -> u64 {
    /// Without a copy of the text.
    struct Into(DefaultHasher);
    impl std::io::Write for Into {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.write(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut into = Into(DefaultHasher::new());
    let ExecRequest {
        workspace_id,
        command,
        cwd,
        env,
        tty,
        rows,
        cols,
        stdin,
        timeout_ms,
        grace_ms,
        linger_ms,
        lifetime,
        background,
        output_bytes,
        on_full,
        limits,
        process_key,
        wait_ms: _,
    } = request;
    let whole = (
        (workspace_id, command, cwd, env, tty, rows, cols, stdin),
        (timeout_ms, grace_ms, linger_ms, lifetime, background, output_bytes, on_full, limits, process_key),
    );
    // What came as JSON can be written as JSON, and this writer takes all.
    drop(serde_json::to_writer(&mut into, &whole));
    into.0.finish()
}

fn shortened(command: &[ByteString]) -> Vec<ByteString> {
    let mut room = SHOWN;
    let fits = |word: &&ByteString| {
        let size = size_as_json(word);
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    };
    let mut shown: Vec<ByteString> = command.iter().take_while(fits).cloned().collect();
    if shown.len() < command.len() {
        let more: usize = command[shown.len()..].iter().map(|word| word.as_bytes().len()).sum();
        shown.push(format!("... ({} more arguments, {more} bytes)", command.len() - shown.len()).into());
    }
    shown
}

/// Bytes of an argument in an answer, with its quotes and its comma: a control character is there as six.
fn size_as_json(word: &ByteString) -> usize {
    let of_byte = |byte: &u8| match byte {
        0..0x20 => 6,
        b'"' | b'\\' | 0x80.. => 2,
        _ => 1,
    };
    word.as_bytes().iter().map(of_byte).sum::<usize>() + 3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ExecRequest {
        let mut request = ExecRequest::new("w".parse().unwrap(), ["sh", "-c", "x"]);
        request.process_key = Some(ProcessKey::try_from("k".to_owned()).unwrap());
        request
    }

    #[test]
    fn a_retry_may_wait_for_another_time_and_differ_in_nothing_else() {
        let first = Asked::of(&request());
        assert!(first.is_retried_by(&Asked::of(&ExecRequest { wait_ms: 7, ..request() })).is_ok());
        let env = [("A".to_owned(), Some("b".into()))].into();
        let others = [
            ExecRequest { env, ..request() },
            ExecRequest { command: vec!["sh".into(), "-cx".into()], ..request() },
            ExecRequest { tty: true, ..request() },
            ExecRequest { timeout_ms: Some(1), ..request() },
            ExecRequest { grace_ms: 1, ..request() },
        ];
        for other in others {
            let error = first.is_retried_by(&Asked::of(&other)).unwrap_err();
            assert_eq!(error.code, ErrorCode::KeyConflict, "{other:?}");
        }
    }

    #[test]
    fn of_a_large_request_little_is_kept() {
        let mut large = request();
        large.command.extend((0..100).map(|_| ByteString::from("x".repeat(100_000))));
        large.env.insert("SECRET".to_owned(), Some("y".repeat(1_000_000).into()));
        let kept: usize = Asked::of(&large).command.iter().map(|word| word.as_bytes().len()).sum();
        assert!(kept <= SHOWN + 100, "{kept}");
    }

    #[test]
    fn what_is_shown_of_a_command_is_short_in_an_answer_whatever_it_is_made_of() {
        for word in ["\u{1}".repeat(16_000), "\"".repeat(16_000), "한".repeat(5_000), "x".to_owned()] {
            let command = vec![ByteString::from(word.as_str()); 20_000];
            let shown = serde_json::to_string(&shortened(&command)).unwrap();
            assert!(shown.len() <= SHOWN + 100, "{} bytes of {:?}", shown.len(), word.chars().next());
        }
        let bytes = vec![ByteString::from(vec![0xff; 8_000])];
        assert!(serde_json::to_string(&shortened(&bytes)).unwrap().len() <= SHOWN + 100);
    }
}
