//! Giving orders to the tracer's thread, from any other.

use std::io;
use std::sync::Once;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use super::point::{Calls, Point};
use super::tracer_thread::{Order, TracerThread, TreeId};
use super::tree::View;
use super::wake;

/// How long an order may lie there before the tracer is woken again: it may have begun to wait just after it was woken.
const AGAIN: Duration = Duration::from_millis(1);

/// The tracer's thread. Dropped, everything that it still traces dies, the Runner included.
pub(super) struct Tracer {
    orders: Option<Sender<Order>>,
    tid: i32,
    thread: Option<thread::JoinHandle<()>>,
}

impl Tracer {
    pub(super) fn start() -> Self {
        static WAKEABLE: Once = Once::new();
        WAKEABLE.call_once(wake::prepare);
        let (orders, queue) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let thread = thread::Builder::new().name("tracer".into()).spawn(move || {
            tell.send(wake::own_tid()).ok();
            TracerThread::new(queue).run();
        });
        let tid = told.recv().expect("the tracer's thread");
        Self { orders: Some(orders), tid, thread: Some(thread.expect("a thread for the tracer")) }
    }

    fn ask<T>(&self, order: impl FnOnce(Sender<T>) -> Order) -> T {
        let (done, answer) = mpsc::channel();
        let orders = self.orders.as_ref().expect("a tracer that was not dropped");
        orders.send(order(done)).expect("a tracer that lives");
        loop {
            wake::interrupt(self.tid);
            match answer.recv_timeout(AGAIN) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("the tracer has failed"),
            }
        }
    }

    pub(super) fn seize(&self, tid: i32) -> io::Result<()> {
        self.ask(|done| Order::Seize { tid, done })
    }

    pub(super) fn expect(&self, target: Option<Point>) -> (TreeId, watch::Receiver<View>) {
        self.ask(|done| Order::Expect { target, done })
    }

    pub(super) fn kill(&self, tree: TreeId, generation: Option<u8>) -> usize {
        self.ask(|done| Order::Kill { tree, generation, done })
    }

    pub(super) fn let_go(&self, tree: TreeId) {
        self.ask(|done| Order::LetGo { tree, done });
    }

    pub(super) fn catch_up(&self, tree: TreeId) -> Calls {
        self.ask(|done| Order::CatchUp { tree, done })
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            while !thread.is_finished() {
                wake::interrupt(self.tid);
                thread::sleep(AGAIN);
            }
            thread.join().ok();
        }
    }
}
