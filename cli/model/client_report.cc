#include "cli/model/client_report.h"

#include <algorithm>
#include <set>
#include <string>

#include "cli/long_work.h"
#include "coordinator/ledger/evaluation.h"
#include "engine/base/table.h"

namespace rivulet {
namespace {

// The most clients in a readable list.
constexpr size_t kMostClientsShown = 20;
constexpr const char* kSpreads[] = {"mean", "p10", "p50", "p90", "worst_decile"};
constexpr char kLoss[] = "evaluate/loss";

Measures SpreadOver(const std::vector<ClientMeasures>& clients) {
  std::vector<const Measures*> measures;
  for (const ClientMeasures& client : clients) measures.push_back(&client.measures);
  return Distribution(measures);
}

std::set<std::string> NamesOf(const std::vector<ClientMeasures>& clients) {
  std::set<std::string> names;
  for (const ClientMeasures& client : clients)
    for (const auto& [name, measure] : client.measures) names.insert(name);
  return names;
}

Cell ValueOf(const Measures& measures, const std::string& name) {
  const auto found = measures.find(name);
  return found == measures.end() ? Cell() : Cell(found->second.value);
}

Table SpreadTable(const std::vector<ClientMeasures>& clients) {
  std::vector<Column> columns = {{.name = "of each client"}};
  for (const char* spread : kSpreads) columns.push_back({.name = spread});
  Table table(std::move(columns));
  const Measures figures = SpreadOver(clients);
  for (const std::string& name : NamesOf(clients)) {
    std::vector<Cell> cells = {name};
    for (const char* spread : kSpreads) cells.push_back(ValueOf(figures, fmt::format("{}/{}", name, spread)));
    table.Add(std::move(cells));
  }
  return table;
}

Table ClientTable(std::vector<ClientMeasures> clients) {
  const std::set<std::string> names = NamesOf(clients);
  std::vector<Column> columns = {{.name = "client"}, {.name = "examples"}};
  for (const std::string& name : names) columns.push_back({.name = name.substr(name.find('/') + 1)});
  Table table(std::move(columns));
  if (clients.size() > kMostClientsShown) {
    std::ranges::stable_sort(clients, std::greater{},
                             [](const ClientMeasures& client) { return client.measures.at(kLoss).value; });
    clients.resize(kMostClientsShown);
  }
  for (const ClientMeasures& client : clients) {
    std::vector<Cell> cells = {client.client_id, client.examples};
    for (const std::string& name : names) cells.push_back(ValueOf(client.measures, name));
    table.Add(std::move(cells));
  }
  return table;
}

}  // namespace

StatusOr<std::vector<ClientMeasures>> ReportClients(RunSetup& setup, const Model& model) {
  if (model.layout().elements(Segment::kLocal) > 0) {
    return FailedPrecondition(
        "this model has personal layers (model.personal), so clients have different models; the history has their own "
        "measurements (evaluation.federated_every)");
  }
  RIVULET_ASSIGN_OR_RETURN(const auto plan, setup.plan());
  RIVULET_ASSIGN_OR_RETURN(const auto shares, setup.shares());
  RIVULET_ASSIGN_OR_RETURN(const auto data, setup.training_data());
  LongWork work("measuring clients");
  return MeasureClients(plan, data, *shares, model, setup.scenario().evaluation.batch_size, work.progress());
}

std::string ClientsText(const std::vector<ClientMeasures>& clients, size_t columns) {
  std::string text = SpreadTable(clients).Text(columns) + "\n" + ClientTable(clients).Text(columns);
  if (clients.size() > kMostClientsShown)
    text += fmt::format("the {} of largest loss, of {}; --json has all\n", kMostClientsShown, clients.size());
  return text;
}

void AddClients(const std::vector<ClientMeasures>& clients, Json& json) {
  json["clients"] = Json::Array();
  for (const ClientMeasures& client : clients) {
    Json entry = {{"client_id", client.client_id}, {"examples", client.examples}};
    for (const auto& [name, measure] : client.measures) entry[name] = measure.value;
    json["clients"].Append(std::move(entry));
  }
  json["spread"] = Json::Object();
  for (const auto& [name, measure] : SpreadOver(clients)) json["spread"][name] = measure.value;
}

}  // namespace rivulet
