//! A plausible program: layered modules that call down and a little across, with recursion.

/// Names of a server's functions, layer by layer; callers come before callees.
const LAYERS: [&[&str]; 7] = [
    &["main"],
    &["server::EventLoop::run", "server::ThreadPool::worker", "server::reload_config"],
    &[
        "http::Connection::on_readable",
        "http::Router::dispatch",
        "jobs::Scheduler::tick",
        "jobs::Queue::drain",
        "config::load",
        "metrics::Exporter::flush",
    ],
    &[
        "shop::CartHandler::handle",
        "shop::SearchHandler::handle",
        "shop::OrderHandler::submit",
        "shop::ImageHandler::resize",
        "jobs::ReportJob::execute",
        "jobs::MailJob::execute",
        "config::Parser::parse_section",
        "http::Headers::parse",
        "session::Store::open",
    ],
    &[
        "json::Parser::parse_value",
        "json::Parser::parse_object",
        "json::Writer::append",
        "db::Client::query",
        "db::ResultSet::materialize",
        "search::Index::lookup",
        "search::Ranker::score",
        "template::Engine::render",
        "template::Node::expand",
        "image::Decoder::decode",
        "image::Scaler::run",
        "cache::Lru::insert",
        "cache::Lru::get",
        "crypto::sign",
        "session::Session::load",
    ],
    &[
        "db::Row::Row",
        "db::Wire::read_packet",
        "search::Posting::expand",
        "text::Tokenizer::split",
        "text::normalize",
        "json::Value::Value",
        "json::Array::push",
        "image::Plane::allocate",
        "template::Scope::bind",
        "cache::Entry::Entry",
        "mail::Message::build",
        "log::Record::format",
        "net::Buffer::grow",
        "net::Socket::read",
    ],
    &[
        "std::string::_M_create",
        "std::vector::_M_realloc_insert",
        "std::map::emplace_hint",
        "std::make_shared",
        "arena::Arena::allocate_slow",
        "zlib::inflateInit",
        "strdup",
        "std::deque::_M_push_back_aux",
    ],
];

/// A small generator: the same program every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below
    }
}

/// `stacks` stacks over at most `functions` functions as folded text; a frame recurs `recursion`
/// times in some of them.
pub(crate) fn folded(functions: usize, stacks: usize, recursion: usize) -> String {
    let mut dice = Dice(42);
    let mut out = String::new();
    for _ in 0..stacks {
        let mut path: Vec<&str> = Vec::new();
        let mut last = 0;
        for (depth, layer) in LAYERS.iter().enumerate() {
            if depth > 2 && dice.roll(9) == 0 {
                continue;
            }
            // Callees are near their callers, so that the graph has a structure to show.
            let near = if path.is_empty() { 0 } else { last * layer.len() / LAYERS[depth - 1].len() };
            let at = (near + dice.roll(3)).min(layer.len() - 1).min(functions);
            last = at;
            path.push(layer[at]);
            if layer[at].contains("parse_value") && dice.roll(2) == 0 {
                for _ in 0..dice.roll(recursion.max(1)) {
                    path.extend(["json::Parser::parse_object", "json::Parser::parse_value"]);
                }
            }
        }
        let objects = 1 + dice.roll(40);
        let bytes = objects * (16 << dice.roll(14));
        out += &format!("{};malloc {bytes} {objects}\n", path.join(";"));
    }
    out
}
