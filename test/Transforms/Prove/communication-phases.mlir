// RUN: heddle-opt %s --split-input-file --prove-communication --verify-diagnostics

// All stages change the train program at the same step.
plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 0 : i64} {
  plan.sequence @train.near() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 1>} {
    plan.end
  }
  plan.sequence @train.far() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"far", from_step = 5>} {
    plan.end
  }
}

plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 1 : i64} {
  plan.sequence @train.far() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"far", from_step = 5>} {
    plan.end
  }
  plan.sequence @train.near() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 1>} {
    plan.end
  }
}

// -----

plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 0 : i64} {
  plan.sequence @train.near() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 1>} {
    plan.end
  }
  plan.sequence @train.far() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"far", from_step = 5>} {
    plan.end
  }
}

plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 1 : i64} {
  plan.sequence @train.near() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 1>} {
    plan.end
  }
  // expected-error @+1 {{H0916: has the phase far from step 6, and on stage 0 the phase far from step 5, so ranks would run different programs in a step}}
  plan.sequence @train.far() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"far", from_step = 6>} {
    plan.end
  }
}

// -----

plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 0 : i64} {
  plan.sequence @train.near() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 1>} {
    plan.end
  }
  plan.sequence @train.far() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"far", from_step = 5>} {
    plan.end
  }
}

plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 1 : i64} {
  // expected-error @+1 {{H0916: has the phase near from step 5, and on stage 0 the phase near from step 1, so ranks would run different programs in a step}}
  plan.sequence @train.near() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 5>} {
    plan.end
  }
  plan.sequence @train.far() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"far", from_step = 1>} {
    plan.end
  }
}

// -----

plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 0 : i64} {
  plan.sequence @train.near() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 1>} {
    plan.end
  }
  plan.sequence @train.far() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"far", from_step = 5>} {
    plan.end
  }
}

// expected-error @+1 {{H0917: has no step program "train.far", which another stage has}}
plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 1 : i64} {
  plan.sequence @train.near() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 1>} {
    plan.end
  }
}

// -----

plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 0 : i64} {
  plan.sequence @train.near() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 1>} {
    plan.end
  }
}

plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 1 : i64} {
  // expected-error @+1 {{H0916: has no phase, and on stage 0 the phase near from step 1}}
  plan.sequence @train.near() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>} {
    plan.end
  }
}
