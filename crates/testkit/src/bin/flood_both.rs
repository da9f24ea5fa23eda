//! Writes 50 MB to stdout and 50 MB to stderr at once (or as many bytes as its argument says), then ends.

use std::io::Write;

fn main() {
    let bytes: usize = std::env::args().nth(1).map_or(50_000_000, |number| number.parse().expect("a number of bytes"));
    let flood = |mut to: Box<dyn Write + Send>, letter: u8| {
        std::thread::spawn(move || {
            let block = [letter; 50_000];
            for _ in 0..bytes / block.len() {
                to.write_all(&block).expect("to write");
            }
        })
    };
    let both = [flood(Box::new(std::io::stdout()), b'o'), flood(Box::new(std::io::stderr()), b'e')];
    both.into_iter().for_each(|thread| thread.join().expect("a whole flood"));
}
