// `--aggregate MODULE:FUNCTION`: a child process, Python, whose function aggregates a run's updates. The process maps
// the updates' files into memory. State of the function is stored beside the run's models, a file per version, so that
// a resumed run continues with it. The other side is python/rivulet/_aggregate.py.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/run/options.h"
#include "engine/base/mutex.h"
#include "federated/aggregation/external.h"

namespace rivulet {

struct AggregateOptions {
  std::string function;            // "robust:trimmed", or the file of a pickled one; "": the scenario's own rule
  std::optional<int64_t> seconds;  // that a call may last
};
void AddAggregateOptions(Command& command, AggregateOptions* options);
// " --aggregate robust:trimmed" for a shell; "" where it is not given.
std::string ShellArguments(const AggregateOptions& options);

// The scenario that `options` name, aggregated by the function where there is one. Usage errors: an algorithm that the
// function would replace; a run that needs a function and is given none.
StatusOr<Scenario> LoadScenario(const ScenarioOptions& options, const AggregateOptions& aggregate);

// Of a run whose plan was built before. Usage errors: a plan that needs a function and is given none, or another one
// than it names; a function beside another plan.
Status CheckFunctionOfPlan(const Scenario& scenario, const AggregateOptions& aggregate);
// The refusal of a run that operators submit: a coordinator that takes such runs calls no functions.
Status RefuseSubmittedFunction(const std::string& scenario);

class PythonAggregation final : public ExternalAggregation {
 public:
  // Starts the process and has it import the function. Null: there is none to start. The variable RIVULET_PYTHON names
  // another interpreter than python3. NOT_FOUND, INVALID_ARGUMENT: what went wrong there, in its words.
  static StatusOr<std::shared_ptr<PythonAggregation>> Start(const AggregateOptions& options);
  ~PythonAggregation() override;  // ends the process
  PythonAggregation(const PythonAggregation&) = delete;
  PythonAggregation& operator=(const PythonAggregation&) = delete;

  // The run of this history is aggregated by it from now on.
  void BeginRun(const std::string& db, const std::string& run_id) EXCLUDES(mutex_);
  Status Aggregate(const ExternalRequest& request, std::span<float> out) override EXCLUDES(mutex_);

 private:
  explicit PythonAggregation(const AggregateOptions& options);
  Status Spawn() REQUIRES(mutex_);
  void End() REQUIRES(mutex_);
  // One line to the process and the one that it answers, within so many milliseconds.
  StatusOr<std::string> Ask(const std::string& line, int64_t milliseconds) REQUIRES(mutex_);
  Status Lost() REQUIRES(mutex_);  // how the process ended

  const std::string function_;
  const int64_t milliseconds_;
  Mutex mutex_;
  std::string folder_ GUARDED_BY(mutex_), run_id_ GUARDED_BY(mutex_);
  pid_t pid_ GUARDED_BY(mutex_) = -1;
  int to_ GUARDED_BY(mutex_) = -1, from_ GUARDED_BY(mutex_) = -1;
};

}  // namespace rivulet
