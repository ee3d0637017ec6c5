// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// Several train programs need phases that give every step exactly one program.
nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @a() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"near", from_step = 1>} {
    nn.return
  }
  // expected-error @+1 {{'nn.step' op has no phase, and is one of several train programs; add phase = #nn.phase<...>}}
  nn.step @b() attributes {
      kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.step' op has no phase, and is one of several train programs; add phase = #nn.phase<...>}}
  nn.step @a() attributes {
      kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.return
  }
  nn.step @b() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"near", from_step = 1>} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @a() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"near", from_step = 1>} {
    nn.return
  }
  // expected-error @+1 {{'nn.step' op has the phase "far" from step 1, and the phase "near" begins there, too}}
  nn.step @b() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"far", from_step = 1>} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @a() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"near", from_step = 1>} {
    nn.return
  }
  // expected-error @+1 {{'nn.step' op has the phase "near", and an earlier program has one of this name}}
  nn.step @b() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"near", from_step = 5>} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.step' op is a train program, but no phase begins at 1}}
  nn.step @a() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"near", from_step = 2>} {
    nn.return
  }
  nn.step @b() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"far", from_step = 5>} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.step' op is a train program, but no phase begins at 1}}
  nn.step @a() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"near", from_step = 2>} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.step' op has the phase "near", but is no train program}}
  nn.step @a() attributes {
      kind = #nn.program<eval>, inputs = [], outputs = [], phase = #nn.phase<"near", from_step = 1>} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+2 {{has the name ""; a name has letters, digits, "_" and "-"}}
  nn.step @train() attributes {
      phase = #nn.phase<"", from_step = 1>, kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+2 {{has the name "a.b"; a name has letters, digits, "_" and "-"}}
  nn.step @train() attributes {
      phase = #nn.phase<"a.b", from_step = 1>, kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @a() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"near", from_step = 1>} {
    nn.return
  }
  // expected-error @+1 {{has the phase "far" from update 5, and the phase "near" begins at step 1; let all phases count steps, or all count updates}}
  nn.step @b() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"far", from_update = 5>} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+2 {{begins at update 0; updates are counted from 1}}
  nn.step @train() attributes {
      phase = #nn.phase<"near", from_update = 0>, kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+2 {{begins at step 0; steps are counted from 1}}
  nn.step @train() attributes {
      phase = #nn.phase<"near", from_step = 0>, kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{has the phase "near", which runs at intervals from step 1 on, and no other phase begins there, to run in between}}
  nn.step @train() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [],
      phase = #nn.phase<"near", from_step = 1, every = #nn.interval<doubled_after = 2>>} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{has the phase "near", which ends with 3, and a later phase}}
  nn.step @a() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"near", from_step = 1, to = 3>} {
    nn.return
  }
  nn.step @b() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"far", from_step = 5>} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+2 {{begins at step 5 and ends with 4}}
  nn.step @train() attributes {
      phase = #nn.phase<"near", from_step = 5, to = 4>, kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+2 {{doubles after 0; at least 1 is right}}
  nn.step @train() attributes {
      phase = #nn.phase<"near", from_step = 1, every = #nn.interval<doubled_after = 0>>, kind = #nn.program<train>, inputs = [], outputs = []} {
    nn.return
  }
}

// -----

// A layer is no program.
nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.func' op has the phase "near", but is no train program}}
  nn.func @layer() attributes {phase = #nn.phase<"near", from_step = 1>} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @a() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"late", from_update = 5>} {
    nn.return
  }
  // expected-error @+1 {{'nn.step' op has the phase "early" from step 1, and the phase "late" begins at update 5; let all phases count steps, or all count updates}}
  nn.step @b() attributes {
      kind = #nn.program<train>, inputs = [], outputs = [], phase = #nn.phase<"early", from_step = 1>} {
    nn.return
  }
}
