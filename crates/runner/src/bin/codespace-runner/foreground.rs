//! Having the terminal in raw mode exactly while it is ours: taken when we are in the foreground, given back when we are
//! told to stop, taken again when we go on.

use std::io;
use std::time::Duration;

use codespace_domain::SignalName;
use tokio::time::timeout;

use crate::own_job::{OwnJob, Told};
use crate::own_stop;
use crate::own_terminal::OwnTerminal;

/// How long the news that we were continued takes at the most.
const NEWS: Duration = Duration::from_secs(3);
/// After it was continued, a process is told of the signals of the meantime in any order.
const GLANCE: Duration = Duration::from_millis(50);

/// Takes the terminal. From the background that stops us, as the kernel stops any program that changes its terminal from
/// there, until the job is brought to the front. A signal to end that came meanwhile is returned: the terminal was then
/// not taken.
pub(crate) async fn take(terminal: &OwnTerminal, job: &mut OwnJob) -> io::Result<Option<SignalName>> {
    while !terminal.in_foreground() {
        // An end first: standing still would keep it from being done.
        if let Some(end) = end_at_a_glance(job).await {
            return Ok(Some(end));
        }
        own_stop::stop_in_background()?;
        if let Some(end) = continued(job).await? {
            return Ok(Some(end));
        }
    }
    terminal.raw().map(|()| None)
}

/// Waits for the news that we were continued, or are to end.
async fn continued(job: &mut OwnJob) -> io::Result<Option<SignalName>> {
    loop {
        match timeout(NEWS, job.next()).await {
            Ok(Told::End(end)) => return Ok(Some(end)),
            Ok(Told::Continue) => return Ok(None),
            Ok(Told::Stop | Told::Resized) => {}
            // The kernel has not stopped us: nobody could ever bring this job to the front.
            Err(_) => {
                return Err(io::Error::other("it belongs to another job, and no shell could give it to this one"));
            }
        }
    }
}

async fn end_at_a_glance(job: &mut OwnJob) -> Option<SignalName> {
    loop {
        match timeout(GLANCE, job.next()).await {
            Ok(Told::End(end)) => return Some(end),
            Ok(Told::Stop | Told::Continue | Told::Resized) => {}
            Err(_) => return None,
        }
    }
}
