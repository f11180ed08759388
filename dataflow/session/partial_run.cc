#include <algorithm>
#include <set>

#include "dataflow/session/session_state.h"

namespace rivulet {

// Partial runs need no special support below. Each feed is a step that is done when the feed arrives. So the planner's
// cut separates nodes by their feeds, and the execution starts each part once, after the last of its feeds. Results are
// values of the single execution.
struct PartialRun::State {
  std::shared_ptr<Session::State> session;
  RunNames names;
  std::shared_ptr<const RunPlan> plan;
  std::unique_ptr<ActiveRun> active;
  Mutex observer_mutex;
  std::shared_ptr<Execution> execution;
  std::vector<bool> fed, fetched;
  std::vector<std::set<int>> needs;  // for each fetch: its feeds
  bool failed = false;
  bool waited = false;  // for the targets
  std::string remote;   // the run's name at the session's target
};

namespace {

// The feeds that each step depends on, directly or indirectly. A fetch with missing feeds is refused at once by this,
// instead of waiting forever.
std::vector<std::set<int>> FeedsOf(const RunPlan& plan) {
  std::vector<std::set<int>> needs(plan.steps.size());
  for (size_t step = 0; step < plan.steps.size(); ++step) {  // in topological order
    if (plan.steps[step].kind == PlanStep::Kind::kFeed) needs[step].insert(plan.steps[step].index);
    for (const int next : plan.steps[step].before)
      needs[static_cast<size_t>(next)].insert(needs[step].begin(), needs[step].end());
  }
  return needs;
}

template <typename List>
bool Contains(const List& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

StatusOr<std::unique_ptr<PartialRun>> Session::SetUpPartialRun(const std::vector<std::string>& feeds,
                                                               const std::vector<std::string>& fetches,
                                                               const std::vector<std::string>& targets,
                                                               const RunOptions& options) {
  std::unique_ptr<PartialRun> run(new PartialRun());
  run->state_ = std::make_unique<PartialRun::State>();
  PartialRun::State& partial = *run->state_;
  partial.session = state_;
  partial.names = {feeds, fetches, targets, /*feeds_come_later=*/true};
  partial.fed.resize(feeds.size());
  partial.fetched.resize(fetches.size());
  if (state_->remote != nullptr) {
    RIVULET_ASSIGN_OR_RETURN(partial.remote, state_->remote->SetUpPartialRun(feeds, fetches, targets));
    return run;
  }
  RIVULET_ASSIGN_OR_RETURN(partial.active,
                           ActiveRun::Create(state_->active, options.cancel, state_->TimeoutOf(options)));
  std::string key;
  RIVULET_ASSIGN_OR_RETURN(partial.plan, state_->Plan(partial.names, &key));
  RIVULET_ASSIGN_OR_RETURN(const State::PoolChoice choice, state_->ChoosePool(options));
  const RunInfo info = state_->InfoOf(options, *partial.active, &partial.observer_mutex);
  partial.execution = std::make_shared<Execution>(
      ExecutionEnvironment{partial.plan, key, state_->parts, state_->resources, choice.pool, options.priority, info});
  const std::vector<std::set<int>> needs = FeedsOf(*partial.plan);
  for (size_t fetch = 0; fetch < fetches.size(); ++fetch) {
    const int value = partial.plan->fetches[fetch];
    std::set<int>& needed = partial.needs.emplace_back();
    for (size_t step = 0; step < partial.plan->steps.size(); ++step) {
      const PlanStep& made_by = partial.plan->steps[step];
      const size_t index = static_cast<size_t>(made_by.index);
      const bool makes = made_by.kind == PlanStep::Kind::kFeed   ? partial.plan->feeds[index] == value
                         : made_by.kind == PlanStep::Kind::kPart ? Contains(partial.plan->parts[index].outputs, value)
                                                                 : Contains(partial.plan->asyncs[index].outputs, value);
      if (makes) needed = needs[step];
    }
  }
  partial.execution->Start(std::vector<Tensor>(feeds.size()));
  return run;
}

PartialRun::PartialRun() = default;

// Steps that wait for feeds will never get them; started steps refer to the state, so they are ended first.
PartialRun::~PartialRun() {
  if (state_ != nullptr && state_->execution != nullptr) state_->execution->Abandon();
}

bool PartialRun::done() const {
  const auto all = [](const std::vector<bool>& list) {
    return std::find(list.begin(), list.end(), false) == list.end();
  };
  return state_->failed || (all(state_->fed) && all(state_->fetched));
}

StatusOr<std::vector<Tensor>> PartialRun::Run(const Session::Feeds& feeds, const std::vector<std::string>& fetches) {
  State& state = *state_;
  if (state.failed) return FailedPrecondition("the partial run has failed; set up another one");
  const auto index_of = [](const std::vector<std::string>& names, const std::string& name) {
    // "x" and "x:0" name one tensor.
    const auto plain = [](const std::string& text) {
      return text.ends_with(":0") ? text.substr(0, text.size() - 2) : text;
    };
    for (size_t i = 0; i < names.size(); ++i)
      if (plain(names[i]) == plain(name)) return static_cast<int>(i);
    return -1;
  };
  // Checks everything before it changes anything.
  std::vector<bool> fed = state.fed, fetched = state.fetched;
  std::vector<int> feed_indices, fetch_indices;
  for (const auto& [name, value] : feeds) {
    const int index = index_of(state.names.feeds, name);
    if (index < 0) return InvalidArgument("'{}' was not named as a feed when the partial run was set up", name);
    const size_t i = static_cast<size_t>(index);
    if (fed[i]) return InvalidArgument("'{}' was fed before; a partial run takes each feed once", name);
    if (state.plan != nullptr) RIVULET_RETURN_IF_ERROR(CheckFeed(name, value, state.plan->feed_specs[i]));
    fed[i] = true;
    feed_indices.push_back(index);
  }
  for (const std::string& name : fetches) {
    const int index = index_of(state.names.fetches, name);
    if (index < 0) return InvalidArgument("'{}' was not named as a fetch when the partial run was set up", name);
    const size_t i = static_cast<size_t>(index);
    if (fetched[i]) return InvalidArgument("'{}' was fetched before; a partial run gives each fetch once", name);
    for (const int feed : state.plan == nullptr ? std::set<int>() : state.needs[i])
      if (!fed[static_cast<size_t>(feed)])
        return InvalidArgument("'{}' needs '{}', which was not fed yet", name,
                               state.names.feeds[static_cast<size_t>(feed)]);
    fetched[i] = true;
    fetch_indices.push_back(index);
  }
  if (state.session->remote != nullptr) {
    StatusOr<std::vector<Tensor>> results = state.session->remote->RunPartial(state.remote, feeds, fetches);
    if (results.ok()) {
      state.fed = std::move(fed);
      state.fetched = std::move(fetched);
    } else {
      state.failed = !absl::IsInvalidArgument(results.status());
    }
    return results;
  }
  EnterWorkerThread();
  state.fed = std::move(fed);
  state.fetched = std::move(fetched);
  for (size_t i = 0; i < feeds.size(); ++i) state.execution->Feed(feed_indices[i], feeds[i].second);
  StatusOr<std::vector<Tensor>> results = state.execution->Wait(fetch_indices, /*all=*/done());
  if (results.ok()) return results;
  state.failed = true;
  return state.active->Explain(results.status());
}

}  // namespace rivulet
