// A pass: one traversal of a client's data with flat variables (README.md lists the names). A task's work is a list of
// passes. Afterwards the client sends parts, whose sources the program names.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "federated/settings/piece.h"

namespace rivulet {

// The model's graph over one buffer. Its nodes get the prefix "<prefix>/"; the first instance has the prefix "" and
// keeps its names, and so the numbering of its random ops. All instances see the same batch. Over a buffer of the
// trainable segment alone, variables that are not trainable are the base model's.
struct ModelInstance {
  std::string prefix;
  std::string buffer = "params";
  bool operator==(const ModelInstance&) const = default;
};

// A report of a pass's last epoch: the mean over the examples, or the sum over the batches, of each batch's
// value.
struct PassScalar {
  std::string name;
  std::string tensor;  // of the composed graph, a float32 scalar
  bool sum = false;
  bool operator==(const PassScalar&) const = default;
};

// A pass in the form that plans contain and clients run.
struct LocalPass {
  std::vector<ModelInstance> models = {{}};
  // A graph with a float32 scalar node `loss`, whose placeholders stand for tensors of the composed graph according to
  // `loss_inputs`; its nodes get "objective/". Null: the first instance's own loss.
  std::shared_ptr<const Graph> loss;
  std::map<std::string, std::string> loss_inputs;  // placeholder → tensor
  std::string gradient_by = "params";              // the buffer by whose variables the loss is differentiated; "": none
  // Another buffer, by which its own instance's training loss is differentiated, into "other_grads"; "": none.
  std::string other_gradient_by;
  bool training = true;  // uses the model's training loss and updates; else its evaluation's
  std::vector<PassScalar> scalars;
  std::string dataset = "train";  // a name that the client has bound
  int64_t batch_size = 1;
  bool shuffle = true;
  int64_t epochs = 1;
  double partial_work = 0;  // share of tasks with fewer epochs (at least one), drawn by the client
  int64_t max_steps = 0;    // 0: no limit
  // Dataset ops that give an epoch's batches (federated/plan/plan_input.h); null: the client's built-in loop.
  std::shared_ptr<const Graph> input;
  // Graphs over flat variables with a node `run`; null: nothing to do. `begin` runs once before the first step; `step`
  // after each batch, in one program with it; `end` once after the last step.
  std::shared_ptr<const Graph> begin, step, end;
  // Name of the scalar that multiplies the loss before differentiation; "": none.
  std::string loss_scale;
};

// Source of a part after the last pass. The difference is computed where it is used, while it is aggregated or sent, so
// that no memory as large as the model is written for it.
struct PartSource {
  std::string from = "params";       // a flat vector …
  std::string less = "base_params";  // … minus this one; "": nothing is subtracted
  bool shared_too = true;            // followed by shared − base_shared, if the model has shared variables
  bool operator==(const PartSource&) const = default;
};

// The work of a client for one kind of task.
struct LocalProgram {
  std::vector<LocalPass> passes;
  std::map<std::string, PartSource> parts;  // by the part's name
  std::vector<PieceSpec> mechanisms;        // over all parts together, in this order, before encoding
};

}  // namespace rivulet
