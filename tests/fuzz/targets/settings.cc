// Small texts that people and programs write: a site's policy, laws and traces of devices, who may come and when, names
// of devices and of tensors that travel, conditions and equations; and what is told of names in another's format.
#include <cmath>
#include <cstdlib>

#include "client/agent/eligibility.h"
#include "client/agent/site_policy.h"
#include "coordinator/control/metrics.h"
#include "dataflow/placement/cost_model.h"
#include "engine/base/wildcard.h"
#include "engine/debug/statistics.h"
#include "engine/graph/device_name.h"
#include "engine/ops/einsum.h"
#include "federated/plan/frozen_rounds.h"
#include "federated/selection/availability.h"
#include "federated/transport/allow_list.h"
#include "federated/weights/layout.h"
#include "proto/graph/cost_graph.pb.h"
#include "rpc/credentials.h"
#include "simulations/fleet/device_trace.h"
#include "simulations/fleet/law.h"
#include "tests/fuzz/target.h"

namespace rivulet::fuzz {
namespace {

constexpr char kPolicy[] = R"([plans]
ops = ["MatMul", "Softmax"]
columns = ["image"]
max_epochs = 3
[budget]
memory_megabytes = 2000
processors = 1
niceness = 5
[when]
hours = ["20:00-06:00", "12:00-13:30"]
max_load = 0.5
min_free_megabytes = 100
)";

const Registered policy{{"site_policy",
                         [](std::string_view bytes) {
                           const auto read = ParseSitePolicy(std::string(bytes), "site.toml");
                           if (!read.ok()) return false;
                           WhyNotNow(read->when, {.minute_of_day = 1439, .load = 2, .available_bytes = 1});
                           if (read->budget.TaskBytes() < 0) std::abort();
                           return true;
                         },
                         [] {
                           return std::vector<std::string>{kPolicy, ""};
                         }}};

const Registered law{{"law",
                      [](std::string_view bytes) {
                        const auto read = Law::Parse(bytes, "devices.compute");
                        if (!read.ok()) return false;
                        for (uint32_t op = 0; op < 8; ++op) {
                          if (!(read->Draw(Draws(StreamKey(), op)) >= 0)) std::abort();
                        }
                        if (!(read->mean() >= 0)) std::abort();
                        return true;
                      },
                      [] {
                        return std::vector<std::string>{"2.5", "uniform(0, 3)", "lognormal(1e9, 0.5)", "half_normal(2)",
                                                        " exponential( 10 ) "};
                      }}};

// Spans of a device ascend and leave each other room.
const Registered devices{{"device_trace",
                          [](std::string_view bytes) {
                            constexpr VirtualTime kPeriod = 1'000'000'000;
                            const auto trace = DeviceTrace::Parse(bytes, "t.csv", kPeriod);
                            if (!trace.ok()) return false;
                            const std::vector<DeviceSpan>* const spans = trace->Find("a");
                            VirtualTime before = 0;
                            for (const DeviceSpan& span : spans == nullptr ? std::vector<DeviceSpan>() : *spans) {
                              if (span.from < before || span.until <= span.from || span.until > kPeriod) std::abort();
                              before = span.until;
                            }
                            return true;
                          },
                          [] {
                            return std::vector<std::string>{
                                "client,from,until,compute,download,upload\na,0,10\na,20.5,30,1e9,2e6\r\nb,0,1,,,7\n"};
                          }}};

const Registered availability{{"availability",
                               [](std::string_view bytes) {
                                 const auto trace = AvailabilityTrace::Parse(bytes, "a.csv", 24);
                                 if (!trace.ok()) return false;
                                 trace->MayBeDrawn("a", 1);
                                 trace->MayBeDrawn("a", std::numeric_limits<int64_t>::max());
                                 return true;
                               },
                               [] { return std::vector<std::string>{"client,from,until\na,1,20\nb,3,3\r\n"}; }}};

const Registered names{{"client_names", [](std::string_view bytes) { return ParseClientNames(bytes, "names").ok(); },
                        [] { return std::vector<std::string>{"# who may come\nward 7\r\n\nclient-00001\n"}; }}};

const Registered address{
    {"address",
     [](std::string_view bytes) {
       IsLoopbackPeer(bytes);
       const auto read = ParseAddress(bytes);
       if (!read.ok()) return false;
       const auto again = ParseAddress(read->ToString());
       if (!again.ok() || again->host != read->host || again->port != read->port) std::abort();
       return true;
     },
     [] {
       return std::vector<std::string>{"fl.example.org:4711", "[2001:db8::7]:0", "127.0.0.1:65535"};
     }}};

// Lines of client.frozen. What they come to lies within what is trained.
const Registered frozen{{"frozen_rounds",
                         [](std::string_view bytes) {
                           static const ModelLayout layout = *ModelLayout::Create(std::vector<VariableSpec>{
                               {"dense/kernel", {DType::kFloat32, {2, 3}}}, {"dense/bias", {DType::kFloat32, {3}}}});
                           std::vector<std::string> lines(1);
                           for (const char c : bytes) {
                             if (c == '\n') lines.emplace_back();
                             if (c != '\n') lines.back() += c;
                           }
                           const auto read = ReadFrozen(lines, layout);
                           if (!read.ok()) return false;
                           for (const FrozenRounds& rounds : *read) {
                             int64_t end = -1;
                             for (const FrozenRounds::Stretch& stretch : rounds.stretches) {
                               if (stretch.first <= end || stretch.count < 1) std::abort();
                               end = stretch.first + stretch.count;
                             }
                             if (rounds.from < 1 || rounds.until < rounds.from) std::abort();
                             if (end > static_cast<int64_t>(layout.trained_bytes() / sizeof(float))) std::abort();
                           }
                           return true;
                         },
                         [] {
                           return std::vector<std::string>{"dense/*=1..3\n*bias=7..", "*=2..2"};
                         }}};

// The bytes before the first '=' are the pattern, as in data.partition.tags.
const Registered wildcard{{"wildcard",
                           [](std::string_view bytes) {
                             const size_t equals = std::min(bytes.find('='), bytes.size());
                             return MatchesWildcard(bytes.substr(0, equals),
                                                    bytes.substr(std::min(equals + 1, bytes.size())));
                           },
                           [] {
                             return std::vector<std::string>{"client-*7=client-00017", "**a*b*=xxaybz", "="};
                           }}};

const Registered device{{"device_name",
                         [](std::string_view bytes) {
                           const auto read = ParseDeviceName(bytes);
                           if (!read.ok()) return false;
                           const auto again = ParseDeviceName(read->ToString());
                           if (!again.ok() || *again != *read) std::abort();
                           return true;
                         },
                         [] {
                           return std::vector<std::string>{"/job:worker/replica:0/task:1/device:GPU:0", "/cpu:*", ""};
                         }}};

const Registered cost_model{{"cost_model", [](std::string_view bytes) { return CostModel::Parse(bytes).ok(); },
                             [] {
                               rivulet::proto::CostGraphDef graph;
                               auto* const node = graph.add_node();
                               node->set_name("x");
                               node->set_compute_time(12);
                               node->add_output_info()->set_size(400);
                               return std::vector{graph.SerializeAsString()};
                             },
                             MessageFrom(0)}};

const Registered condition{{"watch_condition",
                            [](std::string_view bytes) {
                              const auto read = WatchCondition::Parse(bytes);
                              if (!read.ok()) return false;
                              read->Holds({.elements = 2, .nan = 1, .min = -3, .max = 5});
                              return true;
                            },
                            [] {
                              return std::vector<std::string>{"has_nan", "abs > 1e3", "min<-10"};
                            }}};

// Labels that are resolved have a size or are unknown.
const Registered einsum{{"einsum",
                         [](std::string_view bytes) {
                           const auto read = EinsumEquation::Parse(bytes, 2);
                           if (!read.ok()) return false;
                           const auto again = EinsumEquation::Parse(read->ToString(), 2);
                           if (!again.ok() || again->ToString() != read->ToString()) std::abort();
                           ResolveEinsum(*read, {Shape{2, 3}, Shape{3, 4}}).status().IgnoreError();
                           return true;
                         },
                         [] {
                           return std::vector<std::string>{"ij,jk->ik", "...i,i...->...", "ab,ab"};
                         }}};

// One line of Prometheus' text format: NAME{LABEL="VALUE",…} NUMBER, with \\, \" and \n in values alone.
bool IsSample(std::string_view line) {
  const size_t open = line.find_first_of("{ ");
  if (open == 0 || open == line.npos) return false;
  size_t at = open;
  while (line[at] != ' ') {  // behind '{' or ','
    at = line.find("=\"", at);
    if (at == line.npos) return false;
    for (at += 2; at < line.size() && line[at] != '"'; ++at) {
      if (line[at] == '\\' && (++at == line.size() || (line[at] != '\\' && line[at] != '"' && line[at] != 'n')))
        return false;
    }
    if (at + 2 >= line.size() || (line[at + 1] != ',' && line.substr(at + 1, 2) != "} ")) return false;
    at += line[at + 1] == ',' ? 1 : 2;
  }
  return line.find_first_not_of("0123456789+-.eE", at + 1) == line.npos && at + 1 < line.size();
}

// A run's name is whatever its scenario says; the page stays lines of that form.
const Registered metrics{{"metrics_labels",
                          [](std::string_view bytes) {
                            MetricsSnapshot snapshot{.version = std::string(bytes)};
                            snapshot.runs.resize(1);
                            snapshot.runs[0].state.name = std::string(bytes);
                            snapshot.runs[0].state.state = "training";
                            std::string_view text;
                            const std::string page = MetricsText(snapshot);
                            for (text = page; !text.empty();) {
                              const size_t end = text.find('\n');
                              if (end == text.npos) std::abort();
                              const std::string_view line = text.substr(0, end);
                              if (!line.starts_with("# ") && !IsSample(line)) std::abort();
                              text.remove_prefix(end + 1);
                            }
                            return true;
                          },
                          [] {
                            return std::vector<std::string>{"quick\nstart \"7\" \\n", ""};
                          }}};

}  // namespace
}  // namespace rivulet::fuzz
