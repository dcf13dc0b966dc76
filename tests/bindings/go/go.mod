module dump

go 1.19

require asr-stream/bindings/go v0.0.0

replace asr-stream/bindings/go => ../../../bindings/go
