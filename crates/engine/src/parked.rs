//! Waiting for other threads without letting virtual time run away.
//!
//! A paused Tokio clock jumps to the next timer whenever every task waits. A task that waits for a plain
//! thread (SQLite's writer, a callback) looks idle too, so an hour-long timeout would fire while a
//! transaction commits. A blocking task keeps the clock still for as long as it lives, so one is parked
//! beside the wait.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;

/// Waits for a future that another thread will wake, with virtual time standing still meanwhile. A future
/// that is ready at once costs nothing.
pub(crate) async fn parked<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let first = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await;
    match first {
        Poll::Ready(output) => output,
        Poll::Pending => {
            let _still = hold();
            future.await
        }
    }
}

/// Time stands still until this is dropped.
fn hold() -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || {
        let _ = released.recv();
    });
    release
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::time::{Instant, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn virtual_time_stands_still_while_a_thread_works() {
        let (tell, told) = oneshot::channel();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            tell.send(()).unwrap();
        });
        let start = Instant::now();
        let hour = Duration::from_secs(3600);
        timeout(hour, parked(told)).await.expect("the timeout did not fire").unwrap();
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}
