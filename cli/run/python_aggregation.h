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
  std::optional<int64_t> seconds;  // time limit of a call
};
void AddAggregateOptions(Command& command, AggregateOptions* options);
// " --aggregate robust:trimmed" for a shell; "" without the option.
std::string ShellArguments(const AggregateOptions& options);

// The scenario of `options`, with the function as its aggregation, if given. Usage errors: an algorithm that the
// function would replace; a run that needs a function without one.
StatusOr<Scenario> LoadScenario(const ScenarioOptions& options, const AggregateOptions& aggregate);

// Checks a run with an existing plan. Usage errors: a plan that needs a function without one, or with another one; a
// function beside any other plan.
Status CheckFunctionOfPlan(const Scenario& scenario, const AggregateOptions& aggregate);
// Refuses a function in a run that operators submit: a coordinator for such runs calls no functions.
Status RefuseSubmittedFunction(const std::string& scenario);

class PythonAggregation final : public ExternalAggregation {
 public:
  // Starts the process, which imports the function. Null: no function is given. The variable RIVULET_PYTHON names
  // another interpreter than python3. NOT_FOUND, INVALID_ARGUMENT: the process's error, in its words.
  static StatusOr<std::shared_ptr<PythonAggregation>> Start(const AggregateOptions& options);
  ~PythonAggregation() override;  // ends the process
  PythonAggregation(const PythonAggregation&) = delete;
  PythonAggregation& operator=(const PythonAggregation&) = delete;

  // Aggregates this history's run from now on.
  void BeginRun(const std::string& db, const std::string& run_id) EXCLUDES(mutex_);
  Status Aggregate(const ExternalRequest& request, std::span<float> out) override EXCLUDES(mutex_);

 private:
  explicit PythonAggregation(const AggregateOptions& options);
  Status Spawn() REQUIRES(mutex_);
  void End() REQUIRES(mutex_);
  // Sends one line to the process and gives its answer, within so many milliseconds.
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
