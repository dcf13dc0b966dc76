//! Finds libasr_stream with pkg-config.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    let output = match Command::new("pkg-config").args(["--libs", "asr_stream"]).output() {
        Ok(output) if output.status.success() => output.stdout,
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => panic!("pkg-config cannot be run, and it finds libasr_stream: {}", error),
    };
    for flag in String::from_utf8_lossy(&output).split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={}", folder);
        } else if let Some(library) = flag.strip_prefix("-l") {
            println!("cargo:rustc-link-lib={}", library);
        } else {
            println!("cargo:rustc-link-arg={}", flag);
        }
    }
}
