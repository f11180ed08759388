#include "engine/placement/receive_schedule.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>

#include "engine/base/check.h"
#include "engine/graph/op.h"

namespace rivulet {
namespace {

size_t Id(const Node* node) { return static_cast<size_t>(node->id()); }

// A node that a program does at some time: waiting for it means something.
// Sends, receives and constants take their place in the plan but no time of a device.
bool TakesTime(const Node& node) {
  return node.type() != "_Send" && node.type() != "_Recv" && node.type() != "Const" && node.type() != "VarHandleOp" &&
         node.type() != "Placeholder";
}

double Duration(const Node& node, const CostModel& costs) {
  return TakesTime(node) ? std::max(costs.Seconds(node), 1e-9) : 0.0;
}

// For each receive its send; nullptr for other nodes, and where the send is not in this graph.
// The edge that a cut graph does not show: without it a receive would seem to be ready from the start.
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

}  // namespace

// A simulation of list scheduling, as the devices will do it: each runs one node at a time, the oldest of those that
// are ready. It needs no measured run, and with equal costs it still tells what is early and what is late.
RunForecast ForecastRun(const Graph& graph, const CostModel& costs) {
  const size_t count = graph.nodes().size();
  const std::vector<const Node*> send_of = Sends(graph);
  RunForecast forecast;
  forecast.start.resize(count);
  forecast.finish.resize(count);
  std::vector<int> waits(count);
  std::vector<std::vector<const Node*>> users(count);
  const auto for_each_input = [&](const Node* node, const auto& visit) {
    for (const Output& input : node->inputs()) visit(static_cast<const Node*>(input.node));
    for (const Node* before : node->control_inputs()) visit(before);
    if (send_of[Id(node)] != nullptr) visit(send_of[Id(node)]);
  };
  // A device's nodes that can start now, the oldest first, and those that can later.
  struct Queue {
    double idle_from = 0;
    std::priority_queue<int, std::vector<int>, std::greater<>> now;
    std::priority_queue<std::pair<double, int>, std::vector<std::pair<double, int>>, std::greater<>> later;
    double next_start() const { return now.empty() ? std::max(idle_from, later.top().first) : idle_from; }
  };
  std::map<std::string, Queue> queues;
  std::vector<const Node*> done;  // whose users are still to be told
  const auto begin = [&](const Node* node, double start, double took) {
    forecast.start[Id(node)] = start;
    forecast.finish[Id(node)] = start + took;
    forecast.makespan = std::max(forecast.makespan, start + took);
    done.push_back(node);
  };
  const auto make_ready = [&](const Node* node) {
    double from = 0;
    for_each_input(node, [&](const Node* input) { from = std::max(from, forecast.finish[Id(input)]); });
    if (TakesTime(*node)) {
      queues[node->device()].later.emplace(from, node->id());
    } else if (node->type() == "_Recv") {
      begin(node, from, costs.TransferSeconds(costs.Bytes({const_cast<Node*>(node), 0})));
    } else {
      begin(node, from, 0);
    }
  };
  const auto tell_users = [&] {
    while (!done.empty()) {
      const Node* node = done.back();
      done.pop_back();
      for (const Node* user : users[Id(node)])
        if (--waits[Id(user)] == 0) make_ready(user);
    }
  };
  for (const auto& node : graph.nodes()) {
    for_each_input(node.get(), [&](const Node* input) {
      ++waits[Id(node.get())];
      users[Id(input)].push_back(node.get());
    });
  }
  for (const auto& node : graph.nodes()) {
    bool waits_for_any = false;
    for_each_input(node.get(), [&](const Node*) { waits_for_any = true; });
    if (!waits_for_any) make_ready(node.get());
  }
  tell_users();
  while (true) {
    Queue* first = nullptr;
    for (auto& [device, queue] : queues) {
      if (queue.now.empty() && queue.later.empty()) continue;
      if (first == nullptr || queue.next_start() < first->next_start()) first = &queue;
    }
    if (first == nullptr) break;
    const double start = first->next_start();
    while (!first->later.empty() && first->later.top().first <= start) {
      first->now.push(first->later.top().second);
      first->later.pop();
    }
    const Node* node = graph.nodes()[static_cast<size_t>(first->now.top())].get();
    first->now.pop();
    first->idle_from = start + Duration(*node, costs);
    begin(node, start, Duration(*node, costs));
    tell_users();
  }

  // Outputs come and go. What a receive brings is there while it is under way.
  std::map<std::string, std::vector<std::pair<double, int64_t>>> changes;
  for (const auto& node : graph.nodes()) {
    if (node->type() == "Const" || node->type() == "VarHandleOp" || node->type() == "_Send") continue;
    for (size_t port = 0; port < node->outputs().size(); ++port) {
      if (SizeOf(node->outputs()[port].dtype) == 0) continue;
      double last = forecast.finish[Id(node.get())];
      for (const Node* user : users[Id(node.get())])
        if (std::ranges::find(user->inputs(), Output{node.get(), static_cast<int>(port)}) != user->inputs().end())
          last = std::max(last, forecast.finish[Id(user)]);
      const int64_t bytes = costs.Bytes({node.get(), static_cast<int>(port)});
      auto& list = changes[node->device()];
      list.emplace_back(forecast.start[Id(node.get())], bytes);
      list.emplace_back(last, -bytes);
    }
  }
  for (auto& [device, list] : changes) {
    std::ranges::sort(list);  // at one time what goes comes before what comes
    int64_t now = 0;
    int64_t& peak = forecast.peak_bytes[device];
    for (const auto& [time, bytes] : list) peak = std::max(peak, now += bytes);
  }
  return forecast;
}

// A receive is tied to a node and not to a moment, since nothing can wait for a time: the last node of its device that
// the forecast lets end early enough for the transfer. A wrong forecast then costs some memory or a short wait, and no
// result.
Status ScheduleReceivesLate(Graph& graph, const CostModel& costs) {
  const RunForecast forecast = ForecastRun(graph, costs);
  const std::vector<const Node*> send_of = Sends(graph);
  // Per device, what takes time, by when it ends.
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
    // Before its send is done it could not start anyway.
    if (end <= forecast.finish[Id(send_of[Id(node.get())])]) continue;
    edges.emplace_back(node.get(), last);
  }
  // No cycle, not through other devices either: with every receive put off to where its edge has it, all edges of the
  // graph and these lead forward in time.
  for (const auto& [recv, last] : edges) RIVULET_RETURN_IF_ERROR(graph.AddControlInput(recv, last));
  return absl::OkStatus();
}

}  // namespace rivulet
