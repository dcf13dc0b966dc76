module asr-stream/bindings/go

go 1.19
