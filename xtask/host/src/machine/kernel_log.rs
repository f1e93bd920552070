//! What the kernel's log says of the GPU since an instant. If the log may not be read, the answer says so.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The most lines that are kept: the first, which name the cause.
const MOST_LINES: usize = 12;

/// The GPU driver's lines since `monotonic_ms`, in one text.
#[must_use]
pub fn since(monotonic_ms: i64) -> String {
    match read(Path::new("/dev/kmsg")) {
        Ok(log) => shown(&driver_lines(&log, monotonic_ms)),
        Err(error) => format!("the kernel's log may not be read ({error})"),
    }
}

fn shown(lines: &[String]) -> String {
    if lines.is_empty() {
        return "the kernel's log says nothing of the GPU".to_owned();
    }
    let mut text = format!("the kernel's log says: {}", lines[..lines.len().min(MOST_LINES)].join(" | "));
    if lines.len() > MOST_LINES {
        let _ = write!(text, " | and {} more lines", lines.len() - MOST_LINES);
    }
    text
}

/// All records that are there; each read gives one.
fn read(path: &Path) -> std::io::Result<String> {
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let mut log = File::options().read(true).custom_flags(nonblocking).open(path)?;
    let (mut text, mut record) = (String::new(), [0_u8; 8192]);
    loop {
        match log.read(&mut record) {
            Ok(0) => return Ok(text),
            Ok(n) => text.push_str(&String::from_utf8_lossy(&record[..n])),
            // The end of the log so far.
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(text),
            // A record that was overwritten while we read: the next read goes on after it.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) => return Err(error),
        }
    }
}

/// The driver's messages (`NVRM: …`) from `monotonic_ms` on, without their prefixes (kernel documentation, ABI `dev-kmsg`:
/// `priority,sequence,microseconds,flags;message`, continued on lines that begin with a blank).
fn driver_lines(log: &str, monotonic_ms: i64) -> Vec<String> {
    let record = |line: &str| {
        let (prefix, message) = line.split_once(';')?;
        let microseconds: i64 = prefix.split(',').nth(2)?.parse().ok()?;
        (microseconds / 1000 >= monotonic_ms && message.contains("NVRM:")).then(|| message.trim().to_owned())
    };
    log.lines().filter(|line| !line.starts_with(' ')).filter_map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Synthetic, in the format of `/dev/kmsg`.
    const LOG: &str = "\
6,100,5000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05
 SUBSYSTEM=pci
 DEVICE=+pci:0000:3b:00.0
6,101,9000000,-;usb 1-1: new device
3,102,9100000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=harness, GPU has fallen off the bus.
3,103,9100001,-;NVRM: The NVIDIA GPU 0000:b3:00.0
3,104,9100002,c;               NVRM: (PCI ID: 10de:2335) installed in this system has
3,105,9100003,c;               NVRM: fallen off the bus and is not responding to commands.
torn record
3,x,y,-;NVRM: torn
";

    #[test]
    fn the_driver_s_lines_since_the_run_began_are_kept_with_or_without_an_xid() {
        let lines = driver_lines(LOG, 9_000);
        assert_eq!(lines.len(), 4);
        assert!(lines[0].starts_with("NVRM: Xid (PCI:0000:3b:00): 79"));
        assert_eq!(lines[3], "NVRM: fallen off the bus and is not responding to commands.");
        assert_eq!(driver_lines(LOG, 0).len(), 5);
        assert!(shown(&lines).starts_with("the kernel's log says: NVRM: Xid"));
    }

    #[test]
    fn an_unreadable_or_silent_log_is_said_as_such() {
        assert!(shown(&driver_lines(LOG, 10_000)).contains("says nothing of the GPU"));
        assert!(read(Path::new("/nonexistent/kmsg")).is_err());
        let many = vec!["NVRM: x".to_owned(); MOST_LINES + 3];
        assert!(shown(&many).ends_with("and 3 more lines"));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), LOG).unwrap();
        assert_eq!(read(file.path()).unwrap(), LOG);
    }
}
