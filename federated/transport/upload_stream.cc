#include "federated/transport/upload_stream.h"

#include <memory>
#include <string>
#include <utility>

#include "federated/transport/chunk_messages.h"
#include "federated/transport/messages.h"
#include "rpc/double_buffer.h"

namespace rivulet {
namespace {

// Whether the caller may submit partial sums of many clients.
bool MayBringPartials(const ServedStreams& shared, const Caller& caller) {
  return shared.admit_sites || (shared.admit_aggregators && caller.proven != Caller::Proven::kClient);
}

// Stages one message while it reads the next, and reads no further, so a slow
// disk slows the senders. The reply with staged blocks precedes the first byte,
// so an upload that is already known costs one round trip and no transfer.
class UploadStream final : public ServerStream<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>> {
 public:
  UploadStream(ServedStreams& shared, grpc::CallbackServerContext* context) : ServerStream(shared, context) {
    entered().ok() ? Read(&in_) : End(entered());
  }
  void OnReadDone(bool ok) override {
    if (writer_ != nullptr) return Came(ok);
    Ended(Doing::kReading, in_.Length());
    Work([this, ok] { TakeHeader(ok); });
  }
  void OnWriteDone(bool ok) override {
    Ended(Doing::kWriting, 0);
    if (!ok) return End(CutOff());
    Move();
    Wait();
    StartRead(&in_);
  }

 private:
  struct Arrived {
    Status status;  // of the message; an error if none arrived, and then none follow
    ArrivedSubmit submit = {};
    size_t bytes = 0;
  };

  Status CutOff() const { return Unavailable("the upload of {} was cut off before its end", what_); }
  void TakeHeader(bool ok) {
    if (const Status status = ok ? header_.Take(in_) : absl::OkStatus(); !status.ok()) return End(status);
    if (!ok || header_.has_chunk || !header_.message.has_header()) {
      return End(InvalidArgument("an upload begins with its header"));
    }
    const Status status = Name(header_.message.header().caller(), "uploads");
    if (!status.ok()) return End(status);
    const rpc::SubmitHeaderProto& header = header_.message.header();
    WorkInTurn(header.submission().bytes(), [this, &header] { Begin(header); });
  }
  // Handles the end of a read. An ended stream receives its last read, which is dropped.
  void Came(bool ok) {
    Arrived arrived{ok ? absl::OkStatus() : CutOff(), {}, in_.Length()};
    if (ok) arrived.status = arrived.submit.Take(in_);
    const bool more = arrived.status.ok();
    auto step = line_.Offer(std::move(arrived), more);
    if (!step.use) return;
    taken_ = *std::move(step.use);
    Moved(taken_.bytes);
    if (step.make) StartRead(&in_);
    Run([this] { Take(); });
  }
  // A job: stages received messages until there are no more.
  void Take() {
    while (GoesOn()) {
      auto step = line_.Next(true, [this] { Wait(); });
      if (!step.use) return;
      taken_ = *std::move(step.use);
      Moved(taken_.bytes);
      if (step.make && taken_.status.ok()) StartRead(&in_);
    }
  }
  // Returns false at the stream's end.
  bool GoesOn() {
    const rpc::SubmitMessageProto& message = taken_.submit.message;
    if (taken_.status.ok() && message.has_finish()) {
      Close(message.finish());
      return false;
    }
    const Status status = taken_.status.ok() ? Stage() : taken_.status;
    if (!status.ok()) End(status);
    return status.ok();
  }
  Status Stage() {
    ArrivedSubmit& submit = taken_.submit;
    if (submit.message.has_resume()) return writer_->Resume(submit.message.resume());
    if (!submit.has_chunk) {
      return InvalidArgument("an upload has one header, then its offset, chunks, and its end");
    }
    RIVULET_RETURN_IF_ERROR(submit.data.Unpack());
    shared().counts.up += submit.data.size();
    shared().counts.up_wire += static_cast<int64_t>(taken_.bytes);
    RIVULET_RETURN_IF_ERROR(writer_->WritePieces(submit.data.pieces()));
    submit.data.Clear();  // frees the received bytes before the next arrive
    return absl::OkStatus();
  }
  void Begin(const rpc::SubmitHeaderProto& header) {
    const Status status = Open(header);
    if (!status.ok()) return End(status);
    if (const SubmitResult* decided = writer_->decided()) {
      return Answer(*decided);
    }
    rpc::SubmitReplyProto reply;
    rpc::StagedProto& staged = *reply.mutable_staged();
    for (const uint32_t crc : writer_->staged_crcs()) staged.add_crcs(crc);
    staged.set_zstd(header.zstd());
    out_ = ToBuffer(reply);
    Write(&out_);
  }
  Status Open(const rpc::SubmitHeaderProto& header) {
    RIVULET_ASSIGN_OR_RETURN(const Submission submission, FromMessage(header.submission()));
    what_ = submission.task.empty() ? "a partial" : fmt::format("task '{}'", submission.task);
    const bool partial = submission.kind == Submission::Kind::kPartial;
    const bool own = submission.kind == Submission::Kind::kUpdate || submission.kind == Submission::Kind::kStep;
    if (!own && !(partial ? MayBringPartials(shared(), caller()) : shared().admit_sites)) {
      return PermissionDenied("'{}' submits as a site of many clients, and none is admitted here", caller().name);
    }
    RIVULET_ASSIGN_OR_RETURN(writer_, shared().api.Submit(caller(), submission));
    return absl::OkStatus();
  }
  void Close(const std::string& bytes) {
    if (const Status status = IdentifyAgain(); !status.ok()) return End(status);
    const StatusOr<Digest> identity = Digest::FromBytes(bytes);
    if (!identity.ok()) return End(identity.status());
    const StatusOr<SubmitResult> result = writer_->Finish(*identity);
    result.ok() ? Answer(*result) : End(result.status());
  }
  void Answer(const SubmitResult& result) {
    rpc::SubmitReplyProto reply;
    ToMessage(result, reply.mutable_result());
    out_ = ToBuffer(reply);
    WriteLast(&out_);
  }

  std::unique_ptr<ChunkWriter> writer_;
  std::string what_;
  ArrivedSubmit header_;
  grpc::ByteBuffer in_, out_;
  DoubleBuffer<Arrived> line_;
  Arrived taken_;  // being staged by the job
};

}  // namespace

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* NewUpload(ServedStreams& shared,
                                                                       grpc::CallbackServerContext* context) {
  return new UploadStream(shared, context);
}

}  // namespace rivulet
