#include "cli/bench/serve.h"

#include <memory>

#include "cli/run/security.h"
#include "cli/terminal.h"
#include "engine/base/json.h"
#include "engine/base/table.h"
#include "serving/grpc_front.h"
#include "serving/load_generator.h"

namespace rivulet {
namespace {

struct BenchServeArguments {
  std::string server = "127.0.0.1:8001", model, version;
  SecurityOptions security;
  std::optional<int64_t> outstanding, rows, seconds;
  bool json = false;
};

Status BenchServe(const BenchServeArguments& arguments) {
  LoadOptions options;
  StatusOr<NetworkAddress> address = ParseAddress(arguments.server);
  if (!address.ok()) return AsUsageError(Annotate(address.status(), "--grpc"));
  options.server = *address;
  RIVULET_ASSIGN_OR_RETURN(const Security security,
                           SecurityOf(arguments.security, kServeRole, *address, "",
                                      [](const std::string& sentence) { PrintNote(sentence, Note::kImportant); }));
  options.credentials = security.credentials;
  options.model = arguments.model;
  options.version = arguments.version;
  options.outstanding = static_cast<int>(arguments.outstanding.value_or(options.outstanding));
  options.rows = arguments.rows.value_or(options.rows);
  options.duration = std::chrono::seconds(arguments.seconds.value_or(5));
  RIVULET_ASSIGN_OR_RETURN(const LoadResult empty, LoadEmptyCalls(options));
  RIVULET_ASSIGN_OR_RETURN(const LoadResult inference, LoadInference(options));
  Table table({{.name = "call"},
               {.name = "per_second"},
               {.name = "of_empty"},
               {.name = "examples_per_second"},
               {.name = "p50_ms"},
               {.name = "p99_ms"},
               {.name = "failed"}});
  table.Add({"ServerLive", empty.per_second, Cell(), Cell(), empty.p50_ms, empty.p99_ms, empty.failed});
  const Cell share = empty.per_second > 0 ? Cell(inference.per_second / empty.per_second) : Cell();
  table.Add({"ModelInfer", inference.per_second, share, inference.per_second * static_cast<double>(options.rows),
             inference.p50_ms, inference.p99_ms, inference.failed});
  fmt::print("{}", arguments.json ? table.Rows().Dump() + "\n" : table.Text(ResultColumns()));
  if (inference.failed > 0 && inference.answered == 0)
    return Unavailable("no request was answered: {}", inference.first_error);
  return absl::OkStatus();
}

}  // namespace

Command BenchServeCommand() {
  auto arguments = std::make_shared<BenchServeArguments>();
  Command command{.name = "serve",
                  .summary = "Load a running `rivulet serve` over gRPC, beside empty calls.",
                  .example = "rivulet bench serve mnist --grpc 127.0.0.1:8001 --insecure"};
  command.Positional("NAME", &arguments->model, "a served name")
      .Option("--grpc", "HOST:PORT", &arguments->server, "the server [127.0.0.1:8001]")
      .Option("--version", "V", &arguments->version, "a version or label [none]")
      .Option("--outstanding", "N", &arguments->outstanding, "requests under way at once [64]",
              {.min = 1, .max = 65536})
      .Option("--rows", "N", &arguments->rows, "examples of a request [1]", {.min = 1, .max = 65536})
      .Option("--seconds", "N", &arguments->seconds, "seconds of each kind of call [5]", {.min = 1, .max = 3600})
      .Flag("--json", &arguments->json, "print a JSON array");
  AddSecurityOptions(command, &arguments->security);
  command.run = [arguments] { return BenchServe(*arguments); };
  return command;
}

}  // namespace rivulet
