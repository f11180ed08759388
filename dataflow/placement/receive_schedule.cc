#include "dataflow/placement/receive_schedule.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include "engine/base/check.h"
#include "engine/graph/op.h"

namespace rivulet {
namespace {

size_t Id(const Node* node) { return static_cast<size_t>(node->id()); }

// Whether a node runs at a definite time, so that others can wait for it. Sends, receives and constants have a position
// in the forecast, but take no device time.
bool TakesTime(const Node& node) {
  return node.type() != "_Send" && node.type() != "_Recv" && node.type() != "Const" && node.type() != "VarHandleOp" &&
         node.type() != "Placeholder";
}

double Duration(const Node& node, const CostModel& costs) {
  return TakesTime(node) ? std::max(costs.Seconds(node), 1e-9) : 0.0;
}

// The send of each receive; nullptr for other nodes, and if the send is not in this graph. This is the edge that a cut
// graph lacks: without it a receive would seem to be ready from the start.
std::vector<const Node*> Sends(const Graph& graph) {
  std::map<std::tuple<std::string, std::string, std::string>, const Node*> sends;
  const auto key = [](const Node& node) {
    return std::tuple(node.attr<std::string>("send_device"), node.attr<std::string>("recv_device"),
                      node.attr<std::string>("tensor_name"));
  };
  for (const auto& node : graph.nodes())
    if (node->type() == "_Send") sends.emplace(key(*node), node.get());
  std::vector<const Node*> of(graph.nodes().size());
  for (const auto& node : graph.nodes()) {
    if (node->type() != "_Recv") continue;
    if (const auto found = sends.find(key(*node)); found != sends.end()) of[Id(node.get())] = found->second;
  }
  return of;
}

// A simulation of list scheduling as the devices do it: each runs one node at a time, the oldest of those that are
// ready. It needs no measured run; even equal costs predict the order of nodes.
class Forecaster {
 public:
  Forecaster(const Graph& graph, const CostModel& costs)
      : graph_(graph), costs_(costs), send_of_(Sends(graph)), waits_(graph.nodes().size()), users_(waits_.size()) {
    forecast_.start.resize(waits_.size());
    forecast_.finish.resize(waits_.size());
    for (const auto& node : graph.nodes()) {
      ForEachInput(node.get(), [&](const Node* input) {
        ++waits_[Id(node.get())];
        users_[Id(input)].push_back(node.get());
      });
    }
  }

  RunForecast Run() {
    for (const auto& node : graph_.nodes()) {
      bool waits_for_any = false;
      ForEachInput(node.get(), [&](const Node*) { waits_for_any = true; });
      if (!waits_for_any) MakeReady(node.get());
    }
    TellUsers();
    while (Queue* const first = FirstToStart()) RunNext(*first);
    CountBytes();
    return std::move(forecast_);
  }

 private:
  // A device's nodes that can start now, the oldest first, and those that can start later.
  struct Queue {
    double idle_from = 0;
    std::priority_queue<int, std::vector<int>, std::greater<>> now;
    std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>, std::greater<>> later;
    double next_start() const { return now.empty() ? std::max(idle_from, later.top().first) : idle_from; }
  };

  template <typename Visit>
  void ForEachInput(const Node* node, const Visit& visit) const {
    for (const Output& input : node->inputs()) visit(static_cast<const Node*>(input.node));
    for (const Node* before : node->control_inputs()) visit(before);
    if (send_of_[Id(node)] != nullptr) visit(send_of_[Id(node)]);
  }

  void Begin(const Node* node, double start, double took) {
    forecast_.start[Id(node)] = start;
    forecast_.finish[Id(node)] = start + took;
    forecast_.makespan = std::max(forecast_.makespan, start + took);
    done_.push_back(node);
  }

  void MakeReady(const Node* node) {
    double from = 0;
    ForEachInput(node, [&](const Node* input) { from = std::max(from, forecast_.finish[Id(input)]); });
    if (TakesTime(*node)) {
      queues_[node->device()].later.emplace(from, node->id());
    } else if (node->type() == "_Recv") {
      Begin(node, from, costs_.TransferSeconds(costs_.Bytes({const_cast<Node*>(node), 0})));
    } else {
      Begin(node, from, 0);
    }
  }

  void TellUsers() {
    while (!done_.empty()) {
      const Node* node = done_.back();
      done_.pop_back();
      for (const Node* user : users_[Id(node)])
        if (--waits_[Id(user)] == 0) MakeReady(user);
    }
  }

  // Null: all nodes have run.
  Queue* FirstToStart() {
    Queue* first = nullptr;
    for (auto& [device, queue] : queues_) {
      if (queue.now.empty() && queue.later.empty()) continue;
      if (first == nullptr || queue.next_start() < first->next_start()) first = &queue;
    }
    return first;
  }

  void RunNext(Queue& queue) {
    const double start = queue.next_start();
    while (!queue.later.empty() && queue.later.top().first <= start) {
      queue.now.push(queue.later.top().second);
      queue.later.pop();
    }
    const Node* node = graph_.nodes()[static_cast<size_t>(queue.now.top())].get();
    queue.now.pop();
    queue.idle_from = start + Duration(*node, costs_);
    Begin(node, start, Duration(*node, costs_));
    TellUsers();
  }

  // Outputs are allocated and freed. A received tensor exists from the start of its transfer.
  void CountBytes() {
    std::map<std::string, std::vector<std::pair<double, int64_t>>> changes;
    for (const auto& node : graph_.nodes()) {
      if (node->type() == "Const" || node->type() == "VarHandleOp" || node->type() == "_Send") continue;
      for (size_t port = 0; port < node->outputs().size(); ++port) {
        if (SizeOf(node->outputs()[port].dtype) == 0) continue;
        const Output output{node.get(), static_cast<int>(port)};
        double last = forecast_.finish[Id(node.get())];
        for (const Node* user : users_[Id(node.get())])
          if (std::ranges::find(user->inputs(), output) != user->inputs().end())
            last = std::max(last, forecast_.finish[Id(user)]);
        const int64_t bytes = costs_.Bytes(output);
        auto& list = changes[node->device()];
        list.emplace_back(forecast_.start[Id(node.get())], bytes);
        list.emplace_back(last, -bytes);
      }
    }
    for (auto& [device, list] : changes) {
      std::ranges::sort(list);  // at equal times, memory is freed before it is allocated
      int64_t now = 0;
      int64_t& peak = forecast_.peak_bytes[device];
      for (const auto& [time, bytes] : list) peak = std::max(peak, now += bytes);
    }
  }

  const Graph& graph_;
  const CostModel& costs_;
  const std::vector<const Node*> send_of_;
  std::vector<int> waits_;
  std::vector<std::vector<const Node*>> users_;
  std::map<std::string, Queue> queues_;
  std::vector<const Node*> done_;  // their users are still to be updated
  RunForecast forecast_;
};

}  // namespace

RunForecast ForecastRun(const Graph& graph, const CostModel& costs) { return Forecaster(graph, costs).Run(); }

// Ties a receive to a node instead of a time, because nothing can wait for a time: to the last node of its device
// that the forecast ends early enough for the transfer. A wrong forecast costs memory or a short wait, but never a
// result.
Status ScheduleReceivesLate(Graph& graph, const CostModel& costs) {
  const RunForecast forecast = ForecastRun(graph, costs);
  const std::vector<const Node*> send_of = Sends(graph);
  // Per device, the nodes that take time, by their ends.
  std::map<std::string, std::vector<std::pair<double, Node*>>> ends;
  for (const auto& node : graph.nodes())
    if (TakesTime(*node)) ends[node->device()].emplace_back(forecast.finish[Id(node.get())], node.get());
  for (auto& [device, list] : ends)
    std::ranges::sort(list, [](const auto& a, const auto& b) {
      return std::pair(a.first, a.second->id()) < std::pair(b.first, b.second->id());
    });
  std::vector<std::pair<Node*, Node*>> edges;
  for (const auto& node : graph.nodes()) {
    if (node->type() != "_Recv" || send_of[Id(node.get())] == nullptr) continue;
    const std::vector<Node*> users = graph.Consumers(node->output());
    if (users.empty()) continue;
    double needed = forecast.start[Id(users.front())];
    for (const Node* user : users) needed = std::min(needed, forecast.start[Id(user)]);
    const double latest = needed - costs.TransferSeconds(costs.Bytes(node->output()));
    const auto& list = ends[node->device()];
    const auto after = std::ranges::upper_bound(list, latest, {}, &std::pair<double, Node*>::first);
    if (after == list.begin()) continue;
    const auto& [end, last] = *std::prev(after);
    // It cannot start before its send is done anyway.
    if (end <= forecast.finish[Id(send_of[Id(node.get())])]) continue;
    edges.emplace_back(node.get(), last);
  }
  // There is no cycle, also across devices: with every receive
  // delayed to its new edge, all edges go forward in time.
  for (const auto& [recv, last] : edges) RIVULET_RETURN_IF_ERROR(graph.AddControlInput(recv, last));
  return absl::OkStatus();
}

}  // namespace rivulet
