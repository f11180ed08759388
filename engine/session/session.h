// Runs parts of a graph, and owns its variables. For tests, examples and evaluation; training in federated rounds binds
// programs to the model's own memory instead (engine/program/program.h).
//
//   RIVULET_ASSIGN_OR_RETURN(auto session, Session::Create(std::move(graph)));
//   RIVULET_RETURN_IF_ERROR(session->Run({}, {}, {"init"}).status());
//   RIVULET_ASSIGN_OR_RETURN(auto values, session->Run({{"image", batch}}, {"loss", "accuracy"}, {"train_step"}));
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/graph/graph.h"
#include "engine/program/program.h"
#include "engine/tensor/tensor.h"

namespace rivulet {

struct SessionConfig {
  uint64_t seed = 0;  // of random ops; the same seed and the same Runs give the same bits
  KernelPolicy kernels;
  PassOptions passes;
};

// Thread-safe. Runs that only read variables go on at once; a Run that changes one waits for the others and they for
// it. A calling thread becomes a worker thread (EnterWorkerThread).
class Session {
 public:
  // INVALID_ARGUMENT: a variable of unknown shape or of a type without values, or two of one name that differ.
  static StatusOr<std::unique_ptr<Session>> Create(Graph graph, const SessionConfig& config = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  using Feeds = std::vector<std::pair<std::string, Tensor>>;
  // Runs what `fetches` (tensor names) and `targets` (node names) need, and returns the fetches. The first Run with
  // given names and feed shapes compiles a program; later ones look it up. NOT_FOUND: a name the graph lacks (names the
  // nearest), a placeholder that is needed and not fed. INVALID_ARGUMENT: a feed of another type or shape, nothing to
  // run. FAILED_PRECONDITION: a variable is read before it has a value. Others as Program::Compile and Instance::Run.
  StatusOr<std::vector<Tensor>> Run(const Feeds& feeds, const std::vector<std::string>& fetches,
                                    const std::vector<std::string>& targets = {}, const CancellationToken& cancel = {});

  const Graph& graph() const;
  std::vector<std::string> variables() const;  // in order of creation
  // A copy of the variable's value. NOT_FOUND (nearest); FAILED_PRECONDITION: it has none yet.
  StatusOr<Tensor> GetVariable(std::string_view name) const;
  // NOT_FOUND (nearest); INVALID_ARGUMENT: another type or shape.
  Status SetVariable(std::string_view name, const Tensor& value);

 private:
  Session();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rivulet
