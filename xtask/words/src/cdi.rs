//! Reads from a CDI specification what shows whether it is outdated: the device nodes it names and the driver it was
//! made for.
//!
//! Specifications are YAML or JSON. Only flat key-value pairs are read, which works for both; everything else is
//! ignored.

use std::collections::BTreeSet;

/// What a specification rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Specification {
    /// Device nodes on the host, each of which must exist.
    pub nodes: BTreeSet<String>,
    /// Versions of the driver, from the names of its libraries.
    pub drivers: BTreeSet<String>,
}

/// Reads a specification of GPUs; absent when it is about something else.
pub fn specification(text: &str) -> Option<Specification> {
    text.contains("nvidia.com/gpu").then(|| {
        let words = || text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '[' | ']' | '{' | '}'));
        let drivers = words().filter_map(driver).map(str::to_owned).collect();
        Specification { nodes: nodes(text), drivers }
    })
}

/// A node's place on the host is its `hostPath`, or its `path` where it is the same inside.
fn nodes(text: &str) -> BTreeSet<String> {
    let mut nodes = BTreeSet::new();
    let mut entry: [Option<String>; 2] = [None, None];
    let mut keep = |entry: &mut [Option<String>; 2]| {
        let [host, path] = std::mem::take(entry);
        nodes.extend(host.or(path).filter(|path| path.starts_with("/dev/")));
    };
    // Every node is an item of a list in YAML, an object in JSON.
    for line in text.split(['\n', '{', '}', ',']) {
        let line = line.trim();
        if line.is_empty() || line.starts_with("- ") {
            keep(&mut entry);
        }
        let Some((key, value)) = line.trim_start_matches("- ").split_once(':') else { continue };
        let value = value.trim().trim_matches(['"', '\'']);
        match key.trim().trim_matches('"') {
            "hostPath" => entry[0] = Some(value.to_owned()),
            "path" => entry[1] = Some(value.to_owned()),
            _ => {}
        }
    }
    keep(&mut entry);
    nodes
}

/// `580.95.05` of `/usr/lib/libcuda.so.580.95.05`.
fn driver(word: &str) -> Option<&str> {
    let version = word.rsplit('/').next()?.strip_prefix("libcuda.so.")?;
    version.contains('.').then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Synthetic, in the shape of nvidia-ctk's output.
    const YAML: &str = "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n  containerEdits:\n    deviceNodes:\n    \
                        - path: /dev/nvidia0\n    - hostPath: /dev/dri/renderD129\n      path: /dev/dri/renderD128\n    mounts:\n    \
                        - containerPath: /usr/lib/libcuda.so.570.86.10\n      hostPath: /usr/lib/libcuda.so.570.86.10\n      \
                        options: [ro]\n    - containerPath: /usr/lib/libcuda.so.1\n";
    const JSON: &str = r#"{"kind":"nvidia.com/gpu","devices":[{"name":"0","containerEdits":{"deviceNodes":[
        {"path":"/dev/nvidia0"},{"hostPath":"/dev/dri/renderD129","path":"/dev/dri/renderD128"}],
        "mounts":[{"hostPath":"/usr/lib/libcuda.so.570.86.10"}]}}]}"#;

    #[test]
    fn nodes_and_driver_are_read_from_both_formats() {
        for text in [YAML, JSON] {
            let found = specification(text).unwrap();
            assert_eq!(found.nodes.iter().collect::<Vec<_>>(), ["/dev/dri/renderD129", "/dev/nvidia0"], "{text}");
            assert_eq!(found.drivers.iter().collect::<Vec<_>>(), ["570.86.10"]);
        }
        assert_eq!(specification("kind: example.com/fpga\npath: /dev/fpga0\n"), None);
        assert_eq!(specification("nvidia.com/gpu"), Some(Specification::default()));
    }
}
