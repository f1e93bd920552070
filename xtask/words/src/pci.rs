//! PCI addresses in one form: CUDA writes `0000:3b:00.0`, NVML `00000000:3B:00.0`.

/// Lower case, with a domain of eight digits; `None` for what is no address.
#[must_use]
pub fn normal(address: &str) -> Option<String> {
    let lower = address.trim().to_ascii_lowercase();
    let parts: Vec<&str> = lower.split([':', '.']).collect();
    let [domain, bus, device, function] = parts[..] else { return None };
    let hex = |part: &str, most: usize| (1..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit());
    let known = hex(domain, 8) && hex(bus, 2) && hex(device, 2) && hex(function, 1);
    known.then(|| format!("{domain:0>8}:{bus:0>2}:{device:0>2}.{function}"))
}

/// Whether two addresses are known to be the same.
#[must_use]
pub fn same(a: &str, b: &str) -> bool {
    normal(a).is_some_and(|a| normal(b) == Some(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_one_address() {
        assert_eq!(normal("00000000:3B:00.0").unwrap(), "00000000:3b:00.0");
        assert!(same("0000:3b:00.0", "00000000:3B:00.0"));
        assert!(!same("0000:0a:00.0", "00000000:3B:00.0"));
        assert!(!same("0001:3b:00.0", "00000000:3B:00.0"));
    }

    #[test]
    fn what_is_no_address_equals_nothing() {
        for text in ["", "N/A", "[N/A]", "3b:00.0", "0000:3b:00", "0000:3g:00.0", "00000000:3B:00.0.1"] {
            assert!(!same(text, text), "{text}");
        }
    }
}
