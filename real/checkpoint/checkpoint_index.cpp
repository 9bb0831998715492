#include "real/checkpoint/checkpoint_index.h"

#include <optional>
#include <set>

#include "engine/base/error.h"
#include "engine/base/json_fields.h"
#include "engine/plan/plan_limits.h"
#include "real/checkpoint/host_file.h"

namespace trainyard {

namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "trainyard-checkpoint";
constexpr std::int64_t kVersion = 1;

/// Text of `value`, the same for the same value; what is not UTF-8 (a path may be) is replaced.
std::string dump(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::string sha256_of(const Json& value) {
  const std::string text = dump(value);
  return sha256_hex(std::as_bytes(std::span(text)));
}

Json to_json(const Piece& piece) {
  return {{"tensor", piece.tensor}, {"dtype", to_string(piece.dtype)},
          {"shape", piece.shape},   {"start", piece.start},
          {"extent", piece.extent}, {"range", {piece.flat_begin, piece.flat_end}}};
}

/// The piece at `fields` of the tensor `name`, whose type and shape `tensor` says.
Piece read_piece(const JsonFields& fields, const std::string& name, const JsonFields& tensor) {
  Piece piece;
  piece.tensor = name;
  const std::string dtype = tensor.text("dtype");
  const std::optional<DType> known = parse_dtype(dtype);
  if (!known) tensor.fail("dtype", "unknown type '" + dtype + "'");
  piece.dtype = *known;
  piece.shape = tensor.integers("shape");
  piece.start = fields.integers("start");
  piece.extent = fields.integers("extent");
  const std::vector<std::int64_t> range = fields.integers("range");
  if (range.size() != 2)
    fields.fail("range", "expected a begin and an end, got " + shape_text(range));
  piece.flat_begin = range[0];
  piece.flat_end = range[1];
  const std::string problem = find_problem(piece);
  if (!problem.empty()) fields.fail("range", problem);
  return piece;
}

Json list_to_json(const std::vector<Piece>& pieces) {
  Json list = Json::array();
  for (const Piece& piece : pieces) list.push_back(to_json(piece));
  return list;
}

std::vector<Piece> read_pieces(const JsonFields& fields) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < fields.list("pieces").size(); ++i) {
    const JsonFields piece = fields.item("pieces", i);
    pieces.push_back(read_piece(piece, piece.text("tensor"), piece));
  }
  return pieces;
}

/// The name of a file beside index.json, under `key`.
std::string read_file_name(const JsonFields& fields, const char* key) {
  std::string name = fields.text(key);
  if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos) {
    fields.fail(key, "expected the name of a file beside index.json, got '" + name + "'");
  }
  return name;
}

Json to_json(const ShardIndex& shard) {
  return {{"file", shard.file},
          {"bytes", shard.stamp.bytes},
          {"sha256", shard.stamp.sha256},
          {"pieces", list_to_json(shard.pieces)}};
}

ShardIndex read_shard(const JsonFields& fields) {
  ShardIndex shard;
  shard.file = read_file_name(fields, "file");
  shard.stamp.bytes = fields.integer("bytes");
  shard.stamp.sha256 = fields.text("sha256");
  shard.pieces = read_pieces(fields);
  return shard;
}

}  // namespace

std::string shard_to_json(const ShardIndex& shard) { return dump(to_json(shard)); }

ShardIndex parse_shard(std::string_view text, const std::string& file) {
  const JsonFile json_file(text, file);
  return read_shard(JsonFields(json_file));
}

std::string pieces_to_json(const std::vector<Piece>& pieces) {
  Json object = Json::object();
  object["pieces"] = list_to_json(pieces);
  return dump(object);
}

std::vector<Piece> parse_pieces(std::string_view text, const std::string& file) {
  const JsonFile json_file(text, file, JsonFile::Places::kKeys);
  return read_pieces(JsonFields(json_file));
}

void collect_tensors(CheckpointIndex& index, const std::string& file) {
  std::set<std::string> files;
  index.tensors.clear();
  for (std::size_t i = 0; i < index.shards.size(); ++i) {
    const ShardIndex& shard = index.shards[i];
    if (!files.insert(shard.file).second) refuse(file, shard.file + " is listed twice");
    for (const Piece& piece : shard.pieces) {
      StoredTensor& tensor = index.tensors[piece.tensor];
      if (tensor.pieces.empty()) {
        tensor.dtype = piece.dtype;
        tensor.shape = piece.shape;
      }
      if (tensor.dtype != piece.dtype) {
        refuse(file, piece.tensor + ": " + std::string(to_string(piece.dtype)) + " in " +
                         shard.file + ", " + std::string(to_string(tensor.dtype)) + " elsewhere");
      }
      if (tensor.shape != piece.shape) {
        refuse(file, piece.tensor + ": of shape " + shape_text(piece.shape) + " in " + shard.file +
                         ", " + shape_text(tensor.shape) + " elsewhere");
      }
      tensor.pieces.push_back({i, piece});
    }
  }
  for (const auto& [name, tensor] : index.tensors) {
    std::vector<const Piece*> pieces;
    for (const StoredPiece& stored : tensor.pieces) pieces.push_back(&stored.piece);
    const std::string problem = find_cover_problem(pieces);
    if (problem.empty()) continue;
    std::string reason = name;
    reason += ": ";
    refuse(file, reason += problem);
  }
}

std::string index_to_json(const CheckpointIndex& index) {
  Json root = {{"format", kFormat},
               {"version", kVersion},
               {"step", index.info.step},
               {"samples", index.info.samples},
               {"program_digest", index.info.program_digest},
               {"study", index.info.study},
               {"seed", index.info.seed},
               {"state", Json::parse(index.info.state)}};
  Json& files = root["files"] = Json::array();
  Json& tensors = root["tensors"] = Json::object();
  for (const ShardIndex& shard : index.shards) {
    files.push_back(
        {{"name", shard.file}, {"bytes", shard.stamp.bytes}, {"sha256", shard.stamp.sha256}});
    for (const Piece& piece : shard.pieces) {
      Json& tensor = tensors[piece.tensor];
      tensor["dtype"] = to_string(piece.dtype);
      tensor["shape"] = piece.shape;
      tensor["pieces"].push_back({{"file", shard.file},
                                  {"key", to_string(piece)},
                                  {"start", piece.start},
                                  {"extent", piece.extent},
                                  {"range", {piece.flat_begin, piece.flat_end}}});
    }
  }
  // Over the text as it will be read back, where what was not UTF-8 has been replaced.
  root = Json::parse(dump(root));
  root["sha256"] = sha256_of(root);
  return dump(root, 1) + "\n";
}

CheckpointIndex parse_index(std::string_view text, const std::string& file) {
  const JsonFile json_file(text, file);
  const JsonFields fields(json_file);
  if (const std::string format = fields.text("format"); format != kFormat) {
    fields.fail("format", "expected " + std::string(kFormat) + ", got '" + format + "'");
  }
  if (const std::int64_t version = fields.integer("version"); version != kVersion) {
    fields.fail("version", "this program reads version " + std::to_string(kVersion) + ", got " +
                               std::to_string(version));
  }
  const std::string expected = fields.text("sha256");
  Json root = fields.json();  // its keys in their order
  root.erase("sha256");
  if (sha256_of(root) != expected) {
    refuse(file, "changed since it was written: its contents do not have its sha256");
  }

  CheckpointIndex index;
  index.info.step = fields.integer("step", 0, kMaxSteps);
  index.info.samples = fields.integer("samples");
  index.info.program_digest = fields.text("program_digest");
  index.info.study = fields.text("study");
  index.info.seed = fields.unsigned_integer("seed");
  index.info.state = dump(fields.object("state").json());

  std::map<std::string, std::size_t> shards;  // by file
  for (std::size_t i = 0; i < fields.list("files").size(); ++i) {
    const JsonFields entry = fields.item("files", i);
    ShardIndex shard;
    shard.file = read_file_name(entry, "name");
    shard.stamp = {entry.integer("bytes"), entry.text("sha256")};
    shards.emplace(shard.file, i);
    index.shards.push_back(std::move(shard));
  }
  const JsonFields tensors = fields.object("tensors");
  for (const auto& [name, value] : tensors.json().items()) {
    const JsonFields tensor(json_file, tensors.path(name), value);
    for (std::size_t i = 0; i < tensor.list("pieces").size(); ++i) {
      const JsonFields stored = tensor.item("pieces", i);
      const Piece piece = read_piece(stored, name, tensor);
      if (stored.text("key") != to_string(piece)) {
        stored.fail("key", "expected '" + to_string(piece) + "', got '" + stored.text("key") + "'");
      }
      const auto shard = shards.find(stored.text("file"));
      if (shard == shards.end()) {
        stored.fail("file", "'" + stored.text("file") + "' is not among the files");
      }
      index.shards[shard->second].pieces.push_back(piece);
    }
    if (tensor.list("pieces").empty()) tensor.fail("pieces", "no piece of it is there");
  }
  collect_tensors(index, file);
  return index;
}

}  // namespace trainyard
