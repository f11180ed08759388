// rivulet data columns: joint columns of several sites' tables, from the columns that each site fitted to its own.
#include <fmt/format.h>

#include <memory>

#include "cli/data/commands.h"
#include "engine/base/file_system.h"
#include "engine/datasets/table.h"

namespace rivulet {
namespace {

struct ColumnsOptions {
  std::vector<std::string> files;
  std::string out;
};

Status PoolColumns(const ColumnsOptions& options) {
  FileSystem& files = FileSystem::Default();
  std::vector<std::pair<std::string, TableColumns>> sites;
  for (const std::string& file : options.files) {
    RIVULET_ASSIGN_OR_RETURN(const std::string json, files.ReadAll(file));
    StatusOr<TableColumns> columns = ParseTableColumns(json);
    if (!columns.ok()) return Annotate(columns.status(), file);
    sites.emplace_back(file, *std::move(columns));
  }
  RIVULET_ASSIGN_OR_RETURN(const TableColumns pooled, PoolTableColumns(sites));
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(files, options.out, ToJson(pooled)));
  fmt::print("{}: {} features by the rows of {} sites\n", options.out, pooled.feature_count(), sites.size());
  for (const std::string& disclosed : Disclosures(pooled)) fmt::print("  discloses {}\n", disclosed);
  return absl::OkStatus();
}

}  // namespace

Command DataColumnsCommand() {
  auto options = std::make_shared<ColumnsOptions>();
  Command command{
      .name = "columns",
      .summary = "Pool the columns.json of several sites: means, deviations, categories over all their rows.",
      .example = "rivulet data columns north/columns.json south/columns.json west/columns.json --out columns.json"};
  command.Positional("COLUMNS.json", &options->files, "files written by `data import csv` at each site")
      .Required("--out", "FILE", &options->out, "the file to write, for every site's --columns");
  command.run = [options] { return PoolColumns(*options); };
  return command;
}

}  // namespace rivulet
