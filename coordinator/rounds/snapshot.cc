// RunMachine's snapshot: "RVRM", version (u32), run_id, the fields in the order of their declaration, then the SHA-256
// of all before it. Integers are 64 bits, texts a length and bytes, all little-endian.
#include <bit>
#include <cstring>
#include <limits>

#include "coordinator/rounds/run_machine.h"
#include "engine/base/sha256.h"

namespace rivulet {
namespace {

constexpr std::string_view kMagic = "RVRM";
// 2: sites; 3: a buffer of leases; 4: replacement; 5: populations; 6: presence, pauses, leases that lapse; 7:
// evaluations, steps, versions that overlap; times as remainders; 8: a pause, and removed members; 9: durations of
// participations
constexpr uint64_t kSnapshotVersion = 9;

constexpr int64_t kNoTime = std::numeric_limits<int64_t>::min();

// Written by hand, without a message type: the bytes are hashed and compared, so one state must give the same bytes in
// every build.
class Writer {
 public:
  explicit Writer(TimeMs now) : now_(now) {}
  // 0 for none.
  void Time(TimeMs time) { Integer(time == 0 ? kNoTime : time - now_); }
  void Integer(int64_t value) {
    static_assert(std::endian::native == std::endian::little, "integers are written as in memory");
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(std::string_view text) {
    Count(text);
    bytes_.append(text);
  }
  template <typename List>
  void Count(const List& list) {
    Integer(static_cast<int64_t>(list.size()));
  }
  template <typename List>
  void Texts(const List& list) {
    Count(list);
    for (const std::string& text : list) Text(text);
  }
  // Relative to now, in the past or the future.
  void Since(TimeMs time) { Integer(time - now_); }
  std::string& bytes() { return bytes_; }

 private:
  const TimeMs now_;
  std::string bytes_;
};

// Reads what Writer wrote. After the end everything is 0 or "" and ok() is false.
class Reader {
 public:
  Reader(std::string_view bytes, TimeMs now) : bytes_(bytes), now_(now) {}
  TimeMs Time() {
    const int64_t left = Integer();
    if (left == kNoTime) return 0;
    return left + now_ == 0 ? 1 : left + now_;
  }
  TimeMs Since() { return Integer() + now_; }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && bytes_.empty(); }
  int64_t Integer() {
    if (bytes_.size() < 8) return Fail();
    uint64_t bits = 0;
    for (int i = 7; i >= 0; --i) bits = bits << 8 | static_cast<uint8_t>(bytes_[static_cast<size_t>(i)]);
    bytes_.remove_prefix(8);
    return static_cast<int64_t>(bits);
  }
  std::string Text() {
    const int64_t size = Integer();
    if (size < 0 || static_cast<uint64_t>(size) > bytes_.size()) return Fail(), "";
    std::string text(bytes_.substr(0, static_cast<size_t>(size)));
    bytes_.remove_prefix(static_cast<size_t>(size));
    return text;
  }
  // A count of things of at least 8 bytes each, or an enumerator up to `largest`. Bounded by the remaining bytes, so a
  // damaged count cannot request memory.
  int64_t Count() { return InRange(Integer(), static_cast<int64_t>(bytes_.size() / 8)); }
  int64_t UpTo(int64_t largest) { return InRange(Integer(), largest); }
  // Reads so many things, as long as there are bytes.
  template <typename One>
  void Each(const One& one) {
    for (int64_t i = Count(); i > 0 && ok_; --i) one();
  }
  std::vector<std::string> Texts() {
    std::vector<std::string> texts;
    Each([&] { texts.push_back(Text()); });
    return texts;
  }

 private:
  int64_t InRange(int64_t value, int64_t largest) { return value < 0 || value > largest ? Fail() : value; }
  int64_t Fail() {
    ok_ = false;
    bytes_ = {};
    return 0;
  }
  std::string_view bytes_;
  const TimeMs now_;
  bool ok_ = true;
};

// The fields of a lease that are written; they depend on the run's kind of time.
struct LeaseForm {
  bool arrives = false, lost = false, summed = false, steps = false;
};

void Put(Writer& w, const Participation& of) {
  for (const int64_t number : {of.version, of.versions, of.examples}) w.Integer(number);
  w.Integer(std::bit_cast<int64_t>(of.loss));
  w.Integer(std::bit_cast<int64_t>(of.duration));
}
Participation ReadParticipation(Reader& r) {
  Participation of;
  for (int64_t* const number : {&of.version, &of.versions, &of.examples}) *number = r.Integer();
  of.loss = std::bit_cast<double>(r.Integer());
  of.duration = std::bit_cast<double>(r.Integer());
  return of;
}

void Put(Writer& w, const Members& members) {
  if (members.remembers()) {
    w.Count(members.participations());
    for (const auto& [client_id, of] : members.participations()) {
      w.Text(client_id);
      Put(w, of);
    }
  }
  const std::vector<Members::Member> told = members.told();
  w.Count(told);
  for (const Members::Member& member : told) {
    w.Text(member.client_id);
    w.Integer(member.from.round);
    w.Integer(member.from.attempt);
    w.Text(member.via);
  }
  w.Integer(members.drawn());
  w.Texts(members.gone());
  w.Texts(members.leaving());
}
void Read(Reader& r, Members::DrawAt draw, Members& members) {
  members.BeginDraw(draw);
  if (members.remembers()) {
    r.Each([&] {
      const std::string client_id = r.Text();
      members.Remember(client_id, ReadParticipation(r));
    });
  }
  std::vector<Members::Member> told;
  r.Each([&] {
    Members::Member& member = told.emplace_back();
    member.client_id = r.Text();
    member.from.round = r.Integer();
    member.from.attempt = r.Integer();
    member.via = r.Text();
  });
  const int64_t drawn = r.Integer();
  const std::vector<std::string> gone = r.Texts(), leaving = r.Texts();
  members.Restore(told, gone, leaving, drawn);
}

// The draw for evaluations, beside that for training.
void PutBeside(Writer& w, const Members& members) {
  w.Integer(members.drawn_beside());
  if (members.drawn_beside() < 0) return;
  w.Texts(members.outside_beside());
  w.Texts(members.leaving_beside());
}

void Put(Writer& w, const Lease& lease, LeaseForm form) {
  w.Text(lease.task);
  w.Text(lease.client_id);
  w.Text(lease.site);
  w.Text(lease.via);
  w.Integer(lease.base_round);
  w.Integer(lease.ordinal);
  w.Integer(lease.step);
  w.Integer(static_cast<int64_t>(lease.state));
  w.Time(lease.expires);
  w.Text(lease.reason);
  if (form.summed) w.Integer(lease.summed);
  if (form.steps) w.Integer(lease.told_step);
  if (!form.arrives) return;
  w.Integer(lease.arrives);
  w.Integer(lease.due);
  if (form.lost) w.Integer(lease.lost);
}
Lease ReadLease(Reader& r, TaskKind kind, int64_t steps, LeaseForm form) {
  Lease lease;
  lease.task = r.Text();
  lease.client_id = r.Text();
  lease.site = r.Text();
  lease.via = r.Text();
  lease.kind = kind;
  lease.base_round = r.Integer();
  lease.ordinal = static_cast<uint16_t>(r.UpTo(65535));
  lease.step = static_cast<int>(r.UpTo(steps));
  lease.state = static_cast<Lease::State>(r.UpTo(static_cast<int64_t>(Lease::State::kFailed)));
  lease.expires = r.Time();
  lease.reason = r.Text();
  if (form.summed) lease.summed = r.UpTo(1) == 1;
  if (form.steps) lease.told_step = static_cast<int>(r.UpTo(steps));
  if (!form.arrives) return lease;
  lease.arrives = r.Integer();
  lease.due = r.UpTo(1) == 1;
  if (form.lost) lease.lost = r.UpTo(1) == 1;
  return lease;
}

void Put(Writer& w, const UpdateBuffer& buffer, const LeaseBook& book, LeaseForm form) {
  w.Time(buffer.deadline());
  w.Integer(static_cast<int64_t>(buffer.state()));
  w.Integer(buffer.asked_last());
  w.Integer(buffer.step());
  w.Time(buffer.step_deadline());
  if (form.summed) w.Text(buffer.failure());
  w.Count(buffer.leases());
  for (const LeaseSlot slot : buffer.leases()) Put(w, book.at(slot), form);
}

void Put(Writer& w, const Presence& presence, TimeMs now) {
  w.Integer(presence.sites());
  for (const auto& [site, seen] : presence.seen_sites()) {
    w.Text(site);
    w.Since(seen);
  }
  w.Integer(presence.began().has_value());
  w.Since(presence.began().value_or(now));
  w.Count(presence.seen());
  for (const auto& [seen, client_id] : presence.seen()) {
    w.Since(seen);
    w.Text(client_id);
  }
  w.Texts(presence.lost());
}
void Read(Reader& r, Presence& presence) {
  r.Each([&] {
    const std::string site = r.Text();
    presence.SawSite(site, r.Since());
  });
  const bool began = r.UpTo(1) == 1;
  if (const TimeMs at = r.Since(); began) presence.Begin(at);
  r.Each([&] {
    const TimeMs seen = r.Since();
    presence.Saw(r.Text(), seen);
  });
  r.Each([&] { presence.Lost(r.Text()); });
}

}  // namespace

std::string RunMachine::Save(TimeMs now) const {
  Writer w(now);
  w.bytes().append(kMagic);
  w.Integer(static_cast<int64_t>(kSnapshotVersion));
  w.Text(rules_.run_id);
  w.Integer(static_cast<int64_t>(phase_));
  w.Integer(stopping_);
  w.Integer(paused_);
  w.Text(reason_);
  w.Integer(committed_round_);
  w.Integer(attempt_);
  w.Integer(attempts_tried_);
  w.Time(not_before_);
  w.Time(armed_);
  Put(w, members_);
  w.Texts(sitting_out_.in_order());
  w.Texts(left_);
  w.Count(ordinals_);
  for (const auto& [client_id, count] : ordinals_) {
    w.Text(client_id);
    w.Integer(count);
  }
  if (continuous() || ordered()) {
    w.Integer(virtual_now_);
    w.Integer(first_ordinal_);
  }
  if (rules_.fleet != nullptr) w.Integer(fleet_deadline_);
  w.Count(due_);
  for (const int64_t version : due_) w.Integer(version);
  const LeaseForm form{.arrives = continuous() || ordered(),
                       .lost = rules_.fleet != nullptr,
                       .summed = rules_.sum_step >= 0,
                       .steps = !rules_.barriers.empty()};
  for (const std::optional<Gathering>* gathering : {&made_, &training_, &evaluation_}) {
    w.Integer(gathering->has_value());
    if (!gathering->has_value()) continue;
    w.Integer((*gathering)->version);
    w.Integer((*gathering)->attempt);
    Put(w, (*gathering)->buffer, book_, form);
  }
  PutBeside(w, members_);
  Put(w, presence_, now);
  w.bytes().append(Sha256Of(w.bytes()).AsBytes());
  return std::move(w.bytes());
}

// The digest is checked first, so later mismatches mean another version or run, and each has its own error. Create
// checks the rules again, because the scenario may have changed.
StatusOr<RunMachine> RunMachine::Restore(RunRules rules, std::string_view snapshot,
                                         std::shared_ptr<Population> population, TimeMs now) {
  constexpr size_t kDigestBytes = sizeof(Digest::bytes);
  if (snapshot.size() < kMagic.size() + 8 + kDigestBytes || !snapshot.starts_with(kMagic)) {
    return DataLoss("{} bytes are not a snapshot of a run's rounds", snapshot.size());
  }
  const std::string_view body = snapshot.substr(0, snapshot.size() - kDigestBytes);
  if (Sha256Of(body).AsBytes() != snapshot.substr(body.size())) {
    return DataLoss("the snapshot of a run's rounds is damaged: its {} bytes do not give the SHA-256 at its end",
                    snapshot.size());
  }
  Reader r(body.substr(kMagic.size()), now);
  if (const int64_t version = r.Integer(); version != static_cast<int64_t>(kSnapshotVersion)) {
    return FailedPrecondition("the snapshot of a run's rounds has version {}, and this program reads {}", version,
                              kSnapshotVersion);
  }
  if (const std::string run_id = r.Text(); run_id != rules.run_id) {
    return FailedPrecondition("the snapshot is of run '{}', not of '{}'", run_id, rules.run_id);
  }
  RIVULET_ASSIGN_OR_RETURN(RunMachine machine, Create(std::move(rules), {.population = std::move(population)}));
  machine.phase_ = static_cast<Phase>(r.UpTo(static_cast<int64_t>(Phase::kStopped)));
  machine.stopping_ = r.UpTo(1) == 1;
  machine.paused_ = r.UpTo(1) == 1;
  machine.reason_ = r.Text();
  machine.committed_round_ = r.Integer();
  machine.attempt_ = r.Integer();
  machine.attempts_tried_ = r.Integer();
  machine.not_before_ = r.Time();
  machine.armed_ = r.Time();
  Read(r, {machine.round(), machine.attempt_}, machine.members_);
  r.Each([&] { machine.sitting_out_.Add(r.Text()); });
  r.Each([&] { machine.left_.insert(r.Text()); });
  r.Each([&] {
    std::string client_id = r.Text();
    machine.ordinals_.emplace(std::move(client_id), r.Integer());
  });
  if (machine.continuous() || machine.ordered()) {
    machine.virtual_now_ = r.Integer();
    machine.first_ordinal_ = static_cast<uint16_t>(r.UpTo(65535));
  }
  if (machine.rules_.fleet != nullptr) machine.fleet_deadline_ = r.Integer();
  r.Each([&] { machine.due_.push_back(r.Integer()); });
  const LeaseForm form{.arrives = machine.continuous() || machine.ordered(),
                       .lost = machine.rules_.fleet != nullptr,
                       .summed = machine.rules_.sum_step >= 0,
                       .steps = !machine.rules_.barriers.empty()};
  for (std::optional<Gathering>* const to : {&machine.made_, &machine.training_, &machine.evaluation_}) {
    if (r.UpTo(1) != 1) continue;
    const TaskKind kind = to == &machine.evaluation_ ? TaskKind::kEvaluate : TaskKind::kTrain;
    const int64_t version = r.Integer(), attempt = r.Integer();
    const TimeMs deadline = r.Time();
    const auto state = static_cast<UpdateBuffer::State>(r.UpTo(static_cast<int64_t>(UpdateBuffer::State::kClosed)));
    const bool asked_last = r.UpTo(1) == 1;
    *to = {kind, version, attempt, UpdateBuffer(machine.RulesAt(kind, deadline), state, asked_last)};
    const auto steps = static_cast<int64_t>(machine.rules_.barriers.size());
    const int step = static_cast<int>(r.UpTo(steps));
    UpdateBuffer& buffer = (*to)->buffer;
    buffer.RestoreStep(step, r.Time());
    if (form.summed) {
      if (std::string failure = r.Text(); !failure.empty()) buffer.Settle(std::move(failure));
    }
    for (int64_t i = r.Count(); i > 0 && r.ok(); --i) {
      Lease lease = ReadLease(r, kind, steps, form);
      if (form.arrives && !machine.ordered()) lease.due = true;
      if (!r.ok() || machine.book_.Find(lease.task)) break;
      const LeaseSlot slot = machine.book_.Add(std::move(lease));
      buffer.Add(slot, machine.book_.at(slot));
      const Lease& added = machine.book_.at(slot);
      if (!added.due && !added.resolved()) machine.under_way_.emplace(added.arrives, added.client_id, slot);
    }
  }
  if (const int64_t beside = r.Integer(); beside >= 0 && machine.evaluation_) {
    const std::vector<std::string> outside = r.Texts(), leaving = r.Texts();
    machine.members_.RestoreBeside(TaskKind::kEvaluate, {machine.evaluation_->version, 1}, outside, leaving, beside);
  }
  Read(r, machine.presence_);
  if (!r.at_end()) return DataLoss("the snapshot of a run's rounds ends early or has bytes left over");
  return machine;
}

// Updates that were aggregated since the last version are lost: no sum is stored. A client that still has its update
// sends it again when it is offered the task. A version that was being made beyond it is lost too. Evaluations begin
// again, because their reports are lost.
StatusOr<RunMachine> RunMachine::Resume(RunRules rules, std::string_view snapshot, RunStart start, TimeMs now) {
  RIVULET_ASSIGN_OR_RETURN(RunMachine machine, Restore(std::move(rules), snapshot, std::move(start.population), now));
  if (machine.committed_round_ != start.committed_round || machine.attempt_ != start.attempt) {
    return FailedPrecondition("the snapshot of a run's rounds is of attempt {} at round {}, and its rows of {} at {}",
                              machine.attempt_, machine.round(), start.attempt, start.committed_round + 1);
  }
  for (const RunStart::Candidate& c : start.candidates) {
    machine.members_.Add(c.client_id, {c.from_round, c.from_attempt}, "");
  }
  if (machine.evaluation_) machine.CloseBuffer(machine.evaluation_);
  machine.members_.EndBeside();
  machine.due_.assign(start.evaluations.begin(), start.evaluations.end());
  machine.stopping_ = machine.paused_ = false;
  machine.left_.clear();  // all of `start` are members, until they are removed again
  machine.reason_.clear();
  machine.attempts_tried_ = 0;
  machine.first_ordinal_ = start.first_ordinal;
  machine.armed_ = 0;
  machine.presence_ = Presence(machine.rules_.presence_ms);
  machine.presence_.Begin(now);
  machine.resumed_ = true;
  const bool last = machine.committed_round_ >= machine.rules_.rounds;
  machine.phase_ = !last ? Phase::kWaiting : machine.due_.empty() ? Phase::kFinished : Phase::kEvaluating;
  if (!machine.training_) return machine;
  if (machine.made_) {
    Gathering both{TaskKind::kTrain, machine.made_->version, machine.made_->attempt,
                   UpdateBuffer(machine.RulesAt(TaskKind::kTrain, 0))};
    for (const std::optional<Gathering>* from : {&machine.made_, &machine.training_}) {
      for (const LeaseSlot slot : (*from)->buffer.leases()) both.buffer.Add(slot, machine.book_.at(slot));
    }
    machine.training_ = std::move(both);
    machine.made_.reset();
  }
  if (last) {
    machine.CloseBuffer(machine.training_);
    return machine;
  }
  UpdateBuffer& buffer = machine.training_->buffer;
  buffer.Reopen();
  buffer.BeginStep(0, now);
  for (const LeaseSlot slot : buffer.leases()) {
    const Lease& lease = machine.book_.at(slot);
    if (lease.resolved() && lease.state != Lease::State::kFolded) continue;
    // Each client's first call gives its present route.
    machine.book_.SetVia(slot, machine.members_.via(lease.client_id));
    machine.Release(slot, Lease::State::kOffered);
    machine.Extend(slot, now);
  }
  return machine;
}

}  // namespace rivulet
