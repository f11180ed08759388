// A pass: one traversal of a client's data with flat variables (README.md has the names). A task's work is a list of
// passes. Afterwards the client sends parts, whose sources the pass names.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "federated/settings/piece.h"

namespace rivulet {

// The model's graph over one buffer. Its nodes get "<prefix>/"; those of the first instance, whose prefix is "", keep
// their names, and with them the numbering of its random ops. All instances see the same batch. Over a buffer of the
// trainable segment alone, variables that are not trainable are the base model's.
struct ModelInstance {
  std::string prefix;
  std::string buffer = "params";
  bool operator==(const ModelInstance&) const = default;
};

// What a pass reports of its last epoch: the mean over the examples, or the sum over the batches, of what each batch
// gave.
struct PassScalar {
  std::string name;
  std::string tensor;  // of the composed graph, a float32 scalar
  bool sum = false;
  bool operator==(const PassScalar&) const = default;
};

// As a plan carries it and as a client runs it.
struct LocalPass {
  std::vector<ModelInstance> models = {{}};
  // A graph with a float32 scalar node `loss`, whose placeholders stand for tensors of the composed graph, as
  // `loss_inputs` says; its nodes get "objective/". Null: the first instance's own loss.
  std::shared_ptr<const Graph> loss;
  std::map<std::string, std::string> loss_inputs;  // placeholder → tensor
  std::string gradient_by = "params";  // the buffer whose variables the loss is differentiated by; "": it is not
  // Another buffer, by which its own instance's training loss is differentiated, into "other_grads"; "": none is.
  std::string other_gradient_by;
  bool training = true;  // the model's training loss and updates; else its evaluation's
  std::vector<PassScalar> scalars;
  std::string dataset = "train";  // the name that the client has bound
  int64_t batch_size = 1;
  bool shuffle = true;
  int64_t epochs = 1;
  double partial_work = 0;  // share of the tasks that go over the data less often, at least once, drawn by the client
  int64_t max_steps = 0;    // 0: no bound
  // Dataset ops that give an epoch's batches (federated/plan/plan_input.h); null: the client's own loop.
  std::shared_ptr<const Graph> input;
  // Each over flat variables with a node `run`; null: nothing to do. Begin is run once before the first step; step
  // after each batch, in one program with it; end once after the last step.
  std::shared_ptr<const Graph> begin, step, end;
  // The scalar that the loss is multiplied by before it is differentiated; "": none.
  std::string loss_scale;
};

// Where a part lies after the last pass. A difference is taken where it is used, by whoever folds or sends it, so that
// nothing as large as the model is written for it.
struct PartSource {
  std::string from = "params";       // a flat vector …
  std::string less = "base_params";  // … minus this one; "": as it is
  bool shared_too = true;            // followed by shared − base_shared, where the model has shared variables
  bool operator==(const PartSource&) const = default;
};

// What a client runs for one kind of task.
struct LocalProgram {
  std::vector<LocalPass> passes;
  std::map<std::string, PartSource> parts;  // by the part's name
  std::vector<PieceSpec> mechanisms;        // over all parts together, in this order, before they are encoded
};

}  // namespace rivulet
