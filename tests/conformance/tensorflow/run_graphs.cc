// Runs graphs that TensorFlow wrote and compares their outputs with what TensorFlow computed.
//
//   conformance_tensorflow_graphs FOLDER CASE…
//   conformance_tensorflow_graphs FILE.jsonl
//
// CASE.pb is a GraphDef, CASE.values.pb constants "feed/NAME" and "fetch/N", CASE.json its fetches and tolerance
// (random_graphs.py writes all three). One line of JSON a case: agree, refused or wrong, with a sentence.
//
// CASE.json may name another file as "graph", "targets" that are run first, such as the first values of variables, and
// a "step" of targets that is run with the feeds; variables are fetched after it. With "outputs", the outputs are not
// compared: that file gets them as constants "fetch/N", and the case has "run".
//
// Each line of FILE.jsonl is such a case, with both graphs as text: "graph_text" and "values_text".
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "dataflow/session/session.h"
#include "engine/base/file_system.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"
#include "engine/io/atomic_file.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using Json = nlohmann::json;

struct Outcome {
  std::string kind, message;
};

template <typename T>
std::string FirstDifference(const Tensor& actual, const Tensor& expected, double tolerance) {
  const auto wanted = expected.flat<T>(), got = actual.flat<T>();
  double largest = 1;
  for (const T value : wanted)
    if (std::isfinite(static_cast<double>(value))) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double e = static_cast<double>(wanted[i]), a = static_cast<double>(got[i]);
    if (std::isnan(e) ? std::isnan(a) : a == e || std::abs(a - e) <= tolerance * largest) continue;
    return fmt::format("element {} is {}, TensorFlow's {}", i, a, e);
  }
  return "";
}

std::string Difference(const Tensor& actual, const Tensor& expected, double tolerance) {
  if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape())
    return fmt::format("{}{}, TensorFlow's {}{}", Name(actual.dtype()), actual.shape().ToString(),
                       Name(expected.dtype()), expected.shape().ToString());
  switch (actual.dtype()) {
    case DType::kFloat32:
      return FirstDifference<float>(actual, expected, tolerance);
    case DType::kFloat64:
      return FirstDifference<double>(actual, expected, tolerance);
    case DType::kFloat16:
      return FirstDifference<float16>(actual, expected, 0x1p-10);
    case DType::kBFloat16:
      return FirstDifference<bfloat16>(actual, expected, 0x1p-7);
    default:
      break;
  }
  const size_t bytes = expected.bytes();
  return bytes == 0 || std::memcmp(actual.data(), expected.data(), bytes) == 0 ? "" : "integers differ";
}

Outcome Write(const std::vector<Tensor>& outputs, const std::string& path) {
  Graph graph;
  const Scope scope(graph);
  for (size_t i = 0; i < outputs.size(); ++i) scope.Const(outputs[i], fmt::format("fetch/{}", i));
  Status written = scope.status();
  if (written.ok()) written = WriteFileAtomically(FileSystem::Default(), path, SerializeGraph(graph));
  return written.ok() ? Outcome{"run", ""} : Outcome{"crash", std::string(Message(written))};
}

Outcome Compare(const Json& facts, StatusOr<Graph> graph, const StatusOr<Graph>& values) {
  if (!values.ok()) return {"refused", fmt::format("values: {}", Message(values.status()))};
  if (!graph.ok()) return {"refused", std::string(Message(graph.status()))};
  Session::Feeds feeds;
  for (const auto& node : values->nodes())
    if (node->name().starts_with("feed/")) feeds.emplace_back(node->name().substr(5), node->attr<Tensor>("value"));
  const auto fetches = facts["fetches"].get<std::vector<std::string>>();
  auto session = Session::Create(*std::move(graph));
  if (!session.ok()) return {"refused", std::string(Message(session.status()))};
  for (const char* const key : {"targets", "step"}) {
    const auto targets = facts.value(key, std::vector<std::string>{});
    if (targets.empty()) continue;
    const bool fed = key == std::string_view("step");
    if (const auto run = (*session)->Run(fed ? feeds : Session::Feeds{}, {}, targets); !run.ok())
      return {"refused", std::string(Message(run.status()))};
    if (fed) feeds.clear();
  }
  const auto outputs = (*session)->Run(feeds, fetches);
  if (!outputs.ok()) return {"refused", std::string(Message(outputs.status()))};
  if (facts.contains("outputs")) return Write(*outputs, facts["outputs"].get<std::string>());
  for (size_t i = 0; i < outputs->size(); ++i) {
    const Node* expected = values->Find(fmt::format("fetch/{}", i));
    if (expected == nullptr) return {"wrong", fmt::format("there is no value of '{}'", fetches[i])};
    const std::string difference =
        Difference((*outputs)[i], expected->attr<Tensor>("value"), facts["tolerance"].get<double>());
    if (!difference.empty()) return {"wrong", fmt::format("'{}': {}", fetches[i], difference)};
  }
  return {"agree", ""};
}

Outcome CompareFiles(const std::string& path) {
  const Json facts = Json::parse(testing::ContentOf(path + ".json"));
  return Compare(facts, ParseGraph(testing::ContentOf(facts.value("graph", path + ".pb"))),
                 ParseGraph(testing::ContentOf(path + ".values.pb")));
}

void Print(const std::string& name, const Outcome& outcome) {
  const Json line = {{"case", name}, {"outcome", outcome.kind}, {"message", outcome.message}};
  std::puts(line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

void CompareLines(const std::string& path) {
  std::istringstream lines(testing::ContentOf(path));
  for (std::string line; std::getline(lines, line);) {
    const Json facts = Json::parse(line);
    Print(facts["case"], Compare(facts, ParseGraphText(facts["graph_text"].get<std::string>()),
                                 ParseGraphText(facts["values_text"].get<std::string>())));
  }
}

}  // namespace
}  // namespace rivulet

int main(int argc, char** argv) {
  if (argc == 2) rivulet::CompareLines(argv[1]);
  for (int i = 2; i < argc; ++i) rivulet::Print(argv[i], rivulet::CompareFiles(fmt::format("{}/{}", argv[1], argv[i])));
}
