#include "dataflow/session/run_cut_call.h"

#include <numeric>

#include "dataflow/session/execution.h"
#include "engine/compile/function_program.h"

namespace rivulet {
namespace {

// A token that is cancelled with `outer`, and separately. A failing run cancels its own token; operations beside the
// call must see the error before they see that cancellation.
class InnerToken {
 public:
  explicit InnerToken(CancellationToken outer) : outer_(std::move(outer)) {
    callback_ = outer_.OnCancel([inner = token_] { inner.Cancel(); });
    if (outer_.cancelled()) token_.Cancel();
  }
  ~InnerToken() { outer_.Forget(callback_); }
  InnerToken(const InnerToken&) = delete;
  InnerToken& operator=(const InnerToken&) = delete;
  const CancellationToken& token() const { return token_; }

 private:
  CancellationToken outer_, token_ = CancellationToken::Create();
  uint64_t callback_ = 0;
};

class CallRunner {
 public:
  CallRunner(const CutCall& call, const std::string& name, const ExecutionEnvironment& environment)
      : call_(call), name_(name), environment_(environment), inner_(environment.info.cancel) {}

  // `inputs`: all inputs of the node that are not handles.
  StatusOr<std::vector<Tensor>> Run(std::vector<Tensor> inputs) {
    using Kind = FunctionCall::Kind;
    if (call_.call.kind == Kind::kWhile) return Loop(std::move(inputs));
    size_t branch = 0;
    if (call_.call.kind == Kind::kIf) {
      const std::optional<bool> truth = TruthOf(inputs[0]);
      if (!truth) return InvalidArgument("the condition is {}, which is no truth", Name(inputs[0].dtype()));
      branch = *truth ? 0 : 1;
    } else if (call_.call.kind == Kind::kCase) {
      branch = BranchOf(inputs[0].flat<int32_t>()[0], call_.functions.size());
    }
    if (call_.call.first_argument > 0) inputs.erase(inputs.begin());
    return RunFunction(branch, inputs, 0, 0);
  }

 private:
  StatusOr<std::vector<Tensor>> Loop(std::vector<Tensor> values) {
    const RunInfo& info = environment_.info;
    for (int64_t done = 0;; ++done) {
      const auto turn = static_cast<uint64_t>(done);
      RIVULET_ASSIGN_OR_RETURN(const std::vector<Tensor> condition, RunFunction(0, values, turn, 1));
      const std::optional<bool> goes_on = TruthOf(condition[0]);
      if (!goes_on) return InvalidArgument("the condition is {}, which is no truth", Name(condition[0].dtype()));
      if (!*goes_on) return values;
      if (info.cancel.cancelled()) return Cancelled("the run was cancelled after {} iterations", done);
      if (info.max_loop_steps >= 0 && done >= info.max_loop_steps)
        return ResourceExhausted(
            "the loop has not ended after {} iterations, and the run may make no more (max_loop_steps); correct the "
            "condition, or raise the bound",
            done);
      if (info.deadline != std::chrono::steady_clock::time_point::max() &&
          std::chrono::steady_clock::now() >= info.deadline)
        return DeadlineExceeded(
            "the loop has not ended after {} iterations, and the run's deadline has passed; correct the condition, or "
            "allow more time",
            done);
      RIVULET_ASSIGN_OR_RETURN(values, RunFunction(1, values, turn, 0));
    }
  }

  StatusOr<std::vector<Tensor>> RunFunction(size_t which, const std::vector<Tensor>& arguments, uint64_t turn,
                                            int part) {
    const CutFunction& function = call_.functions[which];
    std::vector<Tensor> fetched;
    if (function.plan != nullptr) {
      ExecutionEnvironment environment = environment_;
      environment.plan = function.plan;
      environment.plan_key = fmt::format("{}/{}#{}", environment_.plan_key, name_, which);
      environment.pool = nullptr;  // this thread, which would wait anyway
      environment.info.cancel = inner_.token();
      environment.info.rng = StreamOfCall(environment_.info.rng, call_.index, turn, part);
      std::vector<Tensor> feeds;
      for (const int argument : function.arguments) feeds.push_back(arguments[static_cast<size_t>(argument)]);
      const auto execution = std::make_shared<Execution>(std::move(environment));
      execution->Start(std::move(feeds));
      std::vector<int> all(function.plan->fetches.size());
      std::iota(all.begin(), all.end(), 0);
      RIVULET_ASSIGN_OR_RETURN(fetched, execution->Wait(all, /*all=*/true));
    }
    std::vector<Tensor> results;
    for (size_t i = 0; i < function.fetch_of.size(); ++i) {
      const int fetch = function.fetch_of[i], argument = function.argument_of[i];
      if (fetch >= 0)
        results.push_back(fetched[static_cast<size_t>(fetch)]);
      else if (argument >= 0)
        results.push_back(arguments[static_cast<size_t>(argument)]);
    }
    return results;
  }

  const CutCall& call_;
  const std::string& name_;
  const ExecutionEnvironment& environment_;
  InnerToken inner_;
};

}  // namespace

StatusOr<std::vector<Tensor>> RunCutCall(const CutCall& call, const Node& node, std::vector<Tensor> inputs,
                                         const ExecutionEnvironment& environment) {
  return CallRunner(call, node.name(), environment).Run(std::move(inputs));
}

}  // namespace rivulet
