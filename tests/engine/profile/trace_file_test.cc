// The contents of a trace file, which must be valid at every moment. tests/e2e/trace_event_format.py checks files of
// real runs against the format's description.
#include "engine/profile/trace_file.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/engine/program/runner.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

class TraceFileTest : public FolderTest {
 protected:
  std::unique_ptr<TraceFile> Create(TraceFileOptions options = {}) {
    return TraceFile::Create(FileSystem::Default(), path_, std::move(options)).value();
  }
  Json Read(bool closed = true) {
    std::string text = FileSystem::Default().ReadAll(path_).value();
    if (!closed) text += "]";
    return Json::parse(text);
  }
  static Json Named(const Json& events, std::string_view name) {
    for (const Json& event : events)
      if (event["name"] == name) return event;
    ADD_FAILURE() << "no event " << name << " in " << events.dump(1);
    return {};
  }

  const std::string path_ = Path("trace.json");
};

TEST_F(TraceFileTest, Events_HaveTheFormatsKeys) {
  const auto trace = Create({.process = "a process"});
  trace->NameThread("main");
  {
    TraceSpan span(trace.get(), "phase", "upload");
    span.Arg("bytes", int64_t{7});
    span.Arg("loss", 0.5);
    span.Arg("who", "client-1");
    span.Arrow(Tracer::Flow::kEnd, Tracer::kTask, "t1");
  }
  trace->Instant({}, "round", "committed", {});
  trace->Counter("bytes in use", 12);
  ASSERT_OK(trace->Close());
  const Json events = Read();
  EXPECT_EQ(Named(events, "process_name")["args"]["name"], "a process");
  EXPECT_EQ(Named(events, "thread_name")["args"]["name"], "main");
  const Json span = Named(events, "upload");
  EXPECT_EQ(span["ph"], "X");
  EXPECT_EQ(span["cat"], "phase");
  EXPECT_EQ(span["pid"], getpid());
  EXPECT_EQ(span["tid"], gettid());
  EXPECT_GE(span["dur"], 0);
  EXPECT_EQ(span["args"], Json::parse(R"({"bytes": 7, "loss": 0.5, "who": "client-1"})"));
  const Json arrow = Named(events, "task");
  EXPECT_EQ(arrow["ph"], "f");
  EXPECT_EQ(arrow["bp"], "e");
  EXPECT_EQ(arrow["id"], "t1");
  EXPECT_GE(arrow["ts"], span["ts"]);
  EXPECT_EQ(Named(events, "committed")["s"], "t");
  EXPECT_EQ(Named(events, "bytes in use")["args"]["value"], 12);
}

TEST_F(TraceFileTest, AnyText_GivesValidJson) {
  const auto trace = Create({.process = "quote \" backslash \\ line\nbell\a bad \xFF\xC0\xAF half \xE2\x82"});
  trace->NameThread("\xE2\x82\xAC \xF0\x9F\x99\x82");
  trace->Counter("none", std::numeric_limits<double>::infinity());
  ASSERT_OK(trace->Close());
  const Json events = Read();
  EXPECT_EQ(Named(events, "process_name")["args"]["name"], "quote \" backslash \\ line\nbell\a bad ??? half ??");
  EXPECT_EQ(Named(events, "thread_name")["args"]["name"], "\xE2\x82\xAC \xF0\x9F\x99\x82");
}

TEST_F(TraceFileTest, NotClosed_IsAnArrayOpenAtItsEnd) {
  const auto trace = Create();
  for (int i = 0; i < 5000; ++i) trace->Instant({}, "test", "something happens", {});
  const Json events = Read(/*closed=*/false);
  EXPECT_GT(events.size(), 1000u);
}

// The system ends a write of a process that is killed between two pages.
TEST_F(TraceFileTest, CutOffAfterAnyPage_IsAnArrayOpenAtItsEnd) {
  const auto trace = Create();
  for (int i = 0; i < 400; ++i) trace->Instant({}, "test", std::string(static_cast<size_t>(i), 'n'), {});
  ASSERT_OK(trace->Close());
  const std::string text = FileSystem::Default().ReadAll(path_).value();
  ASSERT_GT(text.size(), 20u * 4096);
  size_t events = 0;
  for (size_t cut = 4096; cut < text.size(); cut += 4096) {
    std::string whole = text.substr(0, cut);
    whole.erase(whole.find_last_not_of(" \n,") + 1);
    const Json read = Json::parse(whole + "]", nullptr, /*allow_exceptions=*/false);
    ASSERT_FALSE(read.is_discarded()) << "cut after " << cut << ": " << whole.substr(whole.size() - 200);
    EXPECT_GT(read.size(), events);
    events = read.size();
  }
}

TEST_F(TraceFileTest, Limit_StopsAndIsTold) {
  const auto trace = Create({.limit_bytes = 64 << 10});
  for (int i = 0; i < 5000; ++i) trace->Instant({}, "test", "something happens", {});
  ASSERT_OK(trace->Close());
  EXPECT_LE(std::filesystem::file_size(path_), uintmax_t{64} << 10);
  EXPECT_THAT(trace->Shortened(), HasSubstr("allow more with --trace-megabytes"));
  Named(Read(), "the trace has reached its limit");
}

TEST_F(TraceFileTest, Row_IsMadeOnceAndThereIsALimit) {
  const auto trace = Create();
  const TraceRow first = trace->Row("clients", "client-0");
  EXPECT_EQ(trace->Row("clients", "client-0").thread, first.thread);
  EXPECT_NE(trace->Row("clients", "client-1").thread, first.thread);
  EXPECT_NE(trace->Row("coordinator", "client-0").process, first.process);
  for (int i = 0; i < 2000; ++i) (void)trace->Row("clients", fmt::format("many-{}", i));
  EXPECT_EQ(trace->Row("clients", "one more").thread, trace->Row("clients", "and another").thread);
  ASSERT_OK(trace->Close());
  Named(Read(), "thread_name");
}

TEST_F(TraceFileTest, Run_IsWrittenWithKernelOpAndLayer) {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{4, 8});
  const Output y = scope.SubScope("dense").Op("MatMul", {x, x}, {{"transpose_b", true}}, "product");
  ASSERT_OK(scope.status());
  const auto runner = Runner::Create(graph, {{{"x", F32({4, 8})}}, {y.name()}, {}, {}}).value();
  const auto trace = Create();
  StepMonitor monitor({trace.get()});
  const std::vector<Tensor> feeds = {Tensor(DType::kFloat32, Shape{4, 8})};
  Bindings bindings = runner->bindings(feeds);
  {
    MonitoredRun watched(&monitor, bindings);
    EXPECT_NE(bindings.observer, nullptr);
    ASSERT_OK(runner->instance->Run(bindings));
    watched.Done();
  }
  EXPECT_EQ(bindings.observer, nullptr);
  ASSERT_OK(trace->Close());
  EXPECT_THAT(trace->Shortened(), IsEmpty());
  const Json events = Read();
  const Json op = Named(events, "MatMul");
  EXPECT_EQ(op["cat"], "op");
  EXPECT_THAT(op["args"]["kernel"].get<std::string>(), HasSubstr("rivulet::"));
  EXPECT_EQ(op["args"]["implementation"], "hwy");
  EXPECT_EQ(op["args"]["op"], "MatMul");
  EXPECT_EQ(op["args"]["node"], "dense/product");
  EXPECT_EQ(op["args"]["layer"], "dense");
  EXPECT_EQ(op["args"]["shapes"], "float32[4,8] float32[4,8] -> float32[4,4]");
  EXPECT_EQ(op["args"]["flops"], 2 * 4 * 4 * 8);
  const Json step = Named(events, "step");
  EXPECT_GE(op["ts"], step["ts"]);
}

// Property: events of many threads do not mix, whatever order they come in.
TEST_F(TraceFileTest, ManyThreads_EveryEventIsWhole) {
  const auto trace = Create();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      trace->NameThread(fmt::format("thread {}", i));
      for (int k = 0; k < 500; ++k) {
        TraceSpan span(trace.get(), "test", "work");
        span.Arg("k", int64_t{k});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_OK(trace->Close());
  int spans = 0;
  for (const Json& event : Read()) spans += event["name"] == "work";
  EXPECT_EQ(spans, 2000);
}

TEST_F(TraceFileTest, FolderThatIsNotThere_IsRefused) {
  EXPECT_THAT(TraceFile::Create(FileSystem::Default(), path_ + "/x/trace.json"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("x/trace.json")));
}

}  // namespace
}  // namespace rivulet::testing
