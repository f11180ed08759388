#include "federated/scenario/suggest_key.h"

#include <algorithm>
#include <vector>

#include "engine/base/nearest.h"
#include "federated/scenario/keys.h"

namespace rivulet {
namespace {

using scenario::IsSection;
using scenario::Key;
using scenario::Keys;

// A name of a key in other frameworks and papers. An empty table matches every table, and none.
struct OtherName {
  std::string_view table, leaf, key;
};
constexpr OtherName kOtherNames[] = {
    {"server", "lr", "server.learning_rate"},
    {"server", "momentum", "algorithm.beta"},
    {"privacy", "noise_multiplier", "privacy.noise"},
    {"privacy", "sigma", "privacy.noise"},
    {"privacy", "clip_norm", "privacy.clip"},
    {"privacy", "clipping_norm", "privacy.clip"},
    {"privacy", "max_grad_norm", "privacy.clip"},
    {"privacy", "clip_quantile", "algorithm.clip_quantile"},
    {"privacy", "target_unclipped_quantile", "algorithm.clip_quantile"},
    {"privacy", "clipped_count_stddev", "algorithm.clip_count_stddev"},
    {"", "target_unclipped_quantile", "algorithm.clip_quantile"},
    {"", "clipped_count_stddev", "algorithm.clip_count_stddev"},
    {"", "clip_norm_lr", "algorithm.clip_learning_rate"},
    {"", "initial_l2_norm_clip", "privacy.clip"},
    {"", "initial_clipping_norm", "privacy.clip"},
    {"", "lr", "client.optimizer.learning_rate"},
    {"", "client_lr", "client.optimizer.learning_rate"},
    {"", "local_lr", "client.optimizer.learning_rate"},
    {"", "client_learning_rate", "client.optimizer.learning_rate"},
    {"", "server_lr", "server.learning_rate"},
    {"", "server_learning_rate", "server.learning_rate"},
    {"", "eta_l", "client.optimizer.learning_rate"},
    {"", "eta", "server.learning_rate"},
    {"", "num_rounds", "run.rounds"},
    {"", "num_server_rounds", "run.rounds"},
    {"", "total_rounds", "run.rounds"},
    {"", "n_rounds", "run.rounds"},
    {"", "communication_rounds", "run.rounds"},
    {"", "comm_rounds", "run.rounds"},
    {"", "iterations", "run.rounds"},
    {"", "random_seed", "run.seed"},
    {"", "num_clients", "data.partition.clients"},
    {"", "n_clients", "data.partition.clients"},
    {"", "total_clients", "data.partition.clients"},
    {"", "num_supernodes", "data.partition.clients"},
    {"", "num_partitions", "data.partition.clients"},
    {"", "num_users", "data.partition.clients"},
    {"", "dirichlet_alpha", "data.partition.alpha"},
    {"", "partition", "data.partition.kind"},
    {"", "partitioner", "data.partition.kind"},
    {"", "cohort_size", "server.clients_per_round"},
    {"", "fraction_fit", "server.clients_per_round"},
    {"", "fraction_train", "server.clients_per_round"},
    {"", "client_fraction", "server.clients_per_round"},
    {"", "participation_rate", "server.clients_per_round"},
    {"", "min_fit_clients", "server.min_reports"},
    {"", "min_train_nodes", "server.min_reports"},
    {"", "min_available_clients", "server.min_clients"},
    {"", "min_available_nodes", "server.min_clients"},
    {"", "fraction_evaluate", "evaluation.federated_clients"},
    {"", "round_timeout", "server.deadline"},
    {"", "timeout", "server.deadline"},
    {"", "local_epochs", "client.epochs"},
    {"", "num_epochs", "client.epochs"},
    {"", "n_epochs", "client.epochs"},
    {"", "num_local_epochs", "client.epochs"},
    {"", "bs", "client.batch_size"},
    {"", "batch", "client.batch_size"},
    {"", "local_batch_size", "client.batch_size"},
    {"", "train_batch_size", "client.batch_size"},
    {"", "eval_batch_size", "evaluation.batch_size"},
    {"", "test_batch_size", "evaluation.batch_size"},
    {"", "optimizer", "client.optimizer.kind"},
    {"", "optim", "client.optimizer.kind"},
    {"", "wd", "client.optimizer.weight_decay"},
    {"", "betas", "client.optimizer.beta1"},
    {"", "eps", "client.optimizer.epsilon"},
    {"", "max_grad_norm", "client.optimizer.clip_norm"},
    {"", "clip_grad_norm", "client.optimizer.clip_norm"},
    {"", "scheduler", "client.schedule.kind"},
    {"", "lr_scheduler", "client.schedule.kind"},
    {"", "warmup_steps", "client.schedule.warmup"},
    {"", "dtype", "client.precision"},
    {"", "fp16", "client.precision"},
    {"", "amp", "client.precision"},
    {"", "noise_multiplier", "privacy.noise"},
    {"", "l2_norm_clip", "privacy.clip"},
    {"", "clipping_norm", "privacy.clip"},
    {"", "algorithm", "algorithm.name"},
    {"", "strategy", "algorithm.name"},
    {"", "aggregator", "algorithm.name"},
    {"", "proximal_mu", "algorithm.mu"},
    {"", "mu", "algorithm.mu"},
    {"", "model", "model.preset"},
    {"", "arch", "model.preset"},
    {"", "net", "model.preset"},
    {"", "num_classes", "model.classes"},
    {"", "criterion", "model.objective"},
    {"", "loss_fn", "model.objective"},
    {"", "dataset", "data.train"},
    {"", "train_data", "data.train"},
    {"", "test_data", "data.test"},
    {"", "eval_every", "evaluation.every"},
    {"", "compression", "update.codec"},
    {"", "attack", "attack.name"},
};

// Tables into which other frameworks put all keys.
constexpr std::string_view kTablesOfOthers[] = {"config",          "training", "train", "federated", "fl",
                                                "hyperparameters", "hparams",  "args",  "options"};

// The form in which words are compared: without case, '-', '_' and '.'.
std::string Plain(std::string_view word) {
  std::string plain;
  for (const char c : word)
    if (c != '-' && c != '_' && c != '.') plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return plain;
}

std::string OtherwiseCalled(std::string_view table, std::string_view leaf) {
  const std::string plain = Plain(leaf);
  for (const OtherName& other : kOtherNames)
    if (other.table == table && Plain(other.leaf) == plain) return std::string(other.key);
  return "";
}

// The first key of that name in any table: the most common mistake is a wrong table.
std::string OfAnyTable(std::string_view leaf) {
  const std::string plain = Plain(leaf);
  for (const Key& key : Keys())
    if (Plain(key.leaf()) == plain || Plain(key.name()) == plain) return key.name();
  return "";
}

// The key of a table with the nearest name; if `table` is empty, of all tables.
std::string NearestLeaf(std::string_view table, std::string_view leaf) {
  std::vector<std::string> leaves;
  for (const Key& key : Keys())
    if (table.empty() || key.section() == table) leaves.push_back(key.leaf());
  const std::string nearest = Nearest(leaf, leaves);
  if (nearest.empty()) return "";
  const auto of_it = [&](const Key& key) { return key.leaf() == nearest && (table.empty() || key.section() == table); };
  return std::ranges::find_if(Keys(), of_it)->name();
}

std::vector<std::string> Sections() {
  std::vector<std::string> sections;
  for (const Key& key : Keys()) {
    for (size_t dot = key.name().find('.'); dot != std::string::npos; dot = key.name().find('.', dot + 1)) {
      std::string section = key.name().substr(0, dot);
      if (std::ranges::find(sections, section) == sections.end()) sections.push_back(std::move(section));
    }
  }
  return sections;
}

// The section that a table without its first words means: "client.optimizer" for "optimizer".
std::string SectionEndingIn(std::string_view table) {
  for (const std::string& section : Sections())
    if (section.ends_with("." + std::string(table))) return section;
  return "";
}

// The nearest of all keys and tables, by whole names.
std::string NearestWholeName(std::string_view unknown) {
  std::vector<std::string> names = Sections();
  for (const Key& key : Keys()) names.push_back(key.name());
  return Nearest(unknown, names);
}

std::string FirstOf(std::initializer_list<std::string> suggestions) {
  for (const std::string& suggestion : suggestions)
    if (!suggestion.empty()) return suggestion;
  return "";
}

}  // namespace

std::string NearestScenarioKey(std::string_view unknown) {
  const size_t dot = unknown.rfind('.');
  const std::string_view leaf = unknown.substr(dot + 1);
  std::string table(dot == std::string_view::npos ? std::string_view() : unknown.substr(0, dot));
  if (!table.empty() && !IsSection(table)) {
    if (const std::string section = SectionEndingIn(table); !section.empty()) {
      table = section;
    } else if (std::ranges::find(kTablesOfOthers, table) != std::end(kTablesOfOthers)) {
      table.clear();
    } else {
      return NearestWholeName(unknown);  // in an unknown table, a word may mean anything
    }
  }
  if (table.empty())
    return FirstOf({OtherwiseCalled("", leaf), OfAnyTable(leaf), NearestWholeName(leaf), NearestLeaf("", leaf)});
  return FirstOf({OtherwiseCalled(table, leaf), NearestLeaf(table, leaf), OtherwiseCalled("", leaf), OfAnyTable(leaf),
                  NearestWholeName(unknown)});
}

}  // namespace rivulet

namespace rivulet::scenario {

std::string SuggestKey(std::string_view unknown, bool is_table) {
  std::string nearest = is_table ? SectionEndingIn(unknown) : "";
  if (nearest.empty()) nearest = NearestScenarioKey(unknown);
  return nearest.empty() ? "" : fmt::format(" Did you mean '{}'?", nearest);
}

}  // namespace rivulet::scenario
