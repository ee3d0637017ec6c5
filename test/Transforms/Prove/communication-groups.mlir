// RUN: heddle-opt %s --split-input-file --prove-communication --verify-diagnostics
// RUN: heddle-opt %s --split-input-file --prove-communication=every-rank --verify-diagnostics

// Ranks along data are groups: each runs programs that serve for its own texts.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2, tensor = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @decode.1() attributes {frame_bytes = 1024 : i64, kind = #nn.program<decode>} {
    %a = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %t = plan.collective all_reduce axes ["tensor"] target %a source %a staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.end
  }
  plan.sequence @decode.2() attributes {frame_bytes = 1024 : i64, kind = #nn.program<decode>} {
    %a = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %t = plan.collective all_reduce axes ["tensor"] target %a source %a staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.end
  }
  plan.sequence @prefill.8() attributes {frame_bytes = 1024 : i64, kind = #nn.program<prefill>} {
    %a = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %t = plan.collective all_reduce axes ["tensor"] target %a source %a staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.end
  }
}

// -----

// Any of several of a kind is proven.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2, tensor = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @decode.1() attributes {frame_bytes = 1024 : i64, kind = #nn.program<decode>} {
    %a = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %t = plan.collective all_reduce axes ["tensor"] target %a source %a staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.end
  }
  plan.sequence @decode.2() attributes {frame_bytes = 1024 : i64, kind = #nn.program<decode>} {
    %a = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    // expected-error @+1 {{H0916: plan.collective, command 0 of @decode.2 is of ranks along "data", which run this program each for its own texts}}
    %t = plan.collective all_reduce axes ["data", "tensor"] target %a source %a staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2, tensor = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @prefill.8() attributes {frame_bytes = 1024 : i64, kind = #nn.program<prefill>} {
    %a = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    // expected-error @+1 {{H0916: plan.collective, command 0 of @prefill.8 is of ranks along "data", which run this program each for its own texts}}
    %t = plan.collective all_reduce axes ["data"] target %a source %a staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2, tensor = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @score.8() attributes {frame_bytes = 1024 : i64, kind = #nn.program<score>} {
    %a = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    // expected-error @+1 {{H0916: plan.collective, command 0 of @score.8 is of ranks along "data", which run this program each for its own texts}}
    %t = plan.collective all_reduce axes ["data"] target %a source %a staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2, tensor = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @encode.8() attributes {frame_bytes = 1024 : i64, kind = #nn.program<encode>} {
    %a = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    // expected-error @+1 {{H0916: plan.collective, command 0 of @encode.8 is of ranks along "data", which run this program each for its own texts}}
    %t = plan.collective all_reduce axes ["data"] target %a source %a staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.end
  }
}

// -----

// Weights that ZeRO 3 splits along `data` are gathered by one group of all ranks.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2, tensor = 2}, batch = {global = 2}, zero = {stage = 3}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @gathered() attributes {frame_bytes = 1024 : i64, kind = #nn.program<decode>} {
    %a = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %t = plan.collective all_reduce axes ["data"] target %a source %a staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.end
  }
}
