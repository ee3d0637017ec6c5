// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// Several train programs need phases that give every step exactly one program.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @a() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 1>} {
    plan.end
  }
  // expected-error @+1 {{'plan.sequence' op has no phase, and is one of several train programs}}
  plan.sequence @b() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>} {
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @a() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 1>} {
    plan.end
  }
  // expected-error @+1 {{has the phase "far" from step 1, and the phase "near" begins there, too}}
  plan.sequence @b() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"far", from_step = 1>} {
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @a() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 1>} {
    plan.end
  }
  // expected-error @+1 {{has the phase "near", and an earlier program has one of this name}}
  plan.sequence @b() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 5>} {
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{is a train program, but no phase begins at 1}}
  plan.sequence @a() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"near", from_step = 3>} {
    plan.end
  }
  plan.sequence @b() attributes {frame_bytes = 0 : i64, kind = #nn.program<train>, phase = #nn.phase<"far", from_step = 5>} {
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{has the phase "near", but is no train program}}
  plan.sequence @a() attributes {frame_bytes = 0 : i64, phase = #nn.phase<"near", from_step = 1>} {
    plan.end
  }
}
