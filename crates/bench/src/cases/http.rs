//! Locks over HTTP: what the service adds to the library that it is made of.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorlock::Client;
use quorlock_server::{Config, Server};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::Planned;
use crate::Failure;
use crate::case::{Bar, Case, Contender, Figures, Limit, P50, RATE};
use crate::cycles::Cycles;
use crate::etcd::Etcd;
use crate::options::Options;
use crate::peers;
use crate::worker::Task;

const TTL_MS: u64 = 30_000;
const CALLERS: usize = 64;
/// How much longer the median takes than the same by the library, called in between.
const ADDED: &str = "added_p50_us";
const ADDED_MAX: f64 = 150.0;
const RATE_MIN: f64 = 20_000.0;
const OVER_HTTP: &str = "ours, over HTTP";

const ABOUT: &str = "Lock and release with fences, each a request over a connection that stays, to a service in this process \
    over a memory node; nobody reads its log. The library is called as the service calls it. etcd is one member, by its own \
    client.";

pub(crate) fn planned() -> Vec<Planned> {
    vec![Planned::new("http-1", alone), Planned::new("http-64", together)]
}

fn alone(options: &Options) -> Result<Case, Failure> {
    let mut case = Case::new("http-1", "Over HTTP: lock and release on a memory node, 1 caller", P50);
    case.about = ABOUT.into();
    let place = Place::start(options)?;
    case.add("ours, called directly", Direct { place: place.clone(), callers: 1 });
    case.add(OVER_HTTP, OverHttp { callers: 1, beside: true, place });
    let task = Task { nodes: Vec::new(), callers: 1, first: 0, ttl_ms: TTL_MS, plain: false, recordings: Vec::new() };
    let worker = Etcd::start(1, options).and_then(|etcd| {
        let task = Task { nodes: etcd.addresses(), ..task };
        case.keep(etcd);
        peers::rust("etcd", &task, options)
    });
    case.add_if("etcd", worker);
    case.bars.push(Bar::figure(OVER_HTTP, ADDED, Limit::AtMost(ADDED_MAX)));
    Ok(case)
}

fn together(options: &Options) -> Result<Case, Failure> {
    let mut case = Case::new("http-64", "Over HTTP: lock and release on a memory node, 64 callers, a name each", RATE);
    case.about = ABOUT.into();
    let place = Place::start(options)?;
    case.add("ours, called directly", Direct { place: place.clone(), callers: CALLERS });
    case.add(OVER_HTTP, OverHttp { callers: CALLERS, beside: false, place });
    case.bars.push(Bar::figure(OVER_HTTP, RATE, Limit::AtLeast(RATE_MIN)));
    Ok(case)
}

/// A service over a memory node, and how long a turn is.
#[derive(Clone)]
struct Place {
    runtime: Arc<Runtime>,
    client: Client,
    address: SocketAddr,
    length: Duration,
}

impl Place {
    fn start(options: &Options) -> Result<Self, Failure> {
        let runtime = Arc::clone(&options.runtime);
        let (client, server) = runtime.block_on(async {
            let client = Client::memory().await;
            let mut config = Config::new(([127, 0, 0, 1], 0).into(), client.clone());
            // All callers are one client to it.
            config.limits.requests_per_second = u32::MAX;
            Ok::<_, Failure>((client, Server::bind(config).await?))
        })?;
        let address = server.address();
        runtime.spawn(server.serve(std::future::pending()));
        Ok(Self { runtime, client, address, length: options.length })
    }

    fn connect(&self, callers: usize) -> Result<Vec<Caller>, Failure> {
        (0..callers).map(|number| Caller::connect(self.address, number)).collect()
    }

    fn directly(&self, name: &str) -> Result<(), Failure> {
        self.runtime.block_on(direct_cycle(&self.client, name))
    }
}

async fn direct_cycle(client: &Client, name: &str) -> Result<(), Failure> {
    let lease = client.lock(name).ttl(Duration::from_millis(TTL_MS)).acquire().await?.hand_over()?;
    client.release(&lease).await?;
    Ok(())
}

struct Direct {
    place: Place,
    callers: usize,
}

impl Contender for Direct {
    fn turn(&mut self) -> Result<Figures, Failure> {
        let (begun, length) = (Instant::now(), self.place.length);
        let work = |number: usize| {
            let client = self.place.client.clone();
            async move {
                let (name, mut cycles) = (name_of(number), Cycles::default());
                while begun.elapsed() < length {
                    let cycle = Instant::now();
                    direct_cycle(&client, &name).await.map_err(|error| error.to_string())?;
                    cycles.ended(cycle);
                }
                Ok::<_, String>(cycles)
            }
        };
        let runtime = &self.place.runtime;
        let tasks: Vec<_> = (0..self.callers).map(|number| runtime.spawn(work(number))).collect();
        let mut all = Cycles::default();
        for task in tasks {
            all.append(runtime.block_on(task)??);
        }
        Ok(all.figures(begun.elapsed()))
    }
}

struct OverHttp {
    place: Place,
    callers: usize,
    /// Whether the library is called in between, for what HTTP adds.
    beside: bool,
}

impl Contender for OverHttp {
    fn turn(&mut self) -> Result<Figures, Failure> {
        // For every turn anew: the service does not wait for those who say nothing.
        let mut callers = self.place.connect(self.callers)?;
        let (begun, place, beside) = (Instant::now(), &self.place, self.beside);
        let (mut over_http, mut directly) = (Cycles::default(), Cycles::default());
        std::thread::scope(|scope| {
            let work = |caller: &mut Caller| {
                let (mut over_http, mut directly) = (Cycles::default(), Cycles::default());
                while begun.elapsed() < place.length {
                    let cycle = Instant::now();
                    caller.cycle().map_err(|error| error.to_string())?;
                    over_http.ended(cycle);
                    if beside {
                        let cycle = Instant::now();
                        place.directly(&caller.name).map_err(|error| error.to_string())?;
                        directly.ended(cycle);
                    }
                }
                Ok::<_, String>((over_http, directly))
            };
            let threads: Vec<_> = callers.iter_mut().map(|caller| scope.spawn(move || work(caller))).collect();
            for thread in threads {
                let (one, other) = thread.join().map_err(|_| "a caller panicked")??;
                over_http.append(one);
                directly.append(other);
            }
            Ok::<_, Failure>(())
        })?;
        let elapsed = begun.elapsed();
        let mut figures = over_http.figures(elapsed);
        let median = directly.figures(elapsed).get(P50).copied();
        if let (Some(own), Some(median)) = (figures.get(P50).copied(), median) {
            figures.insert(ADDED.into(), own - median);
            // The other half of the time was the library's.
            figures.remove(RATE);
        }
        Ok(figures)
    }
}

fn name_of(number: usize) -> String {
    format!("bench/{number}")
}

/// One connection that stays.
struct Caller {
    stream: BufReader<TcpStream>,
    name: String,
}

impl Caller {
    fn connect(address: SocketAddr, number: usize) -> Result<Self, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), name: name_of(number) })
    }

    fn cycle(&mut self) -> Result<(), Failure> {
        let ask = format!(r#"{{"name":"{}","ttl_ms":{TTL_MS}}}"#, self.name);
        let granted: Value = serde_json::from_str(&self.post("/v1/leases", &ask, 201)?)?;
        let lease = granted["lease_id"].as_str().ok_or("a grant without a lease_id")?;
        let give = format!(r#"{{"name":"{}","lease_id":"{lease}"}}"#, self.name);
        self.post("/v1/leases/release", &give, 204)?;
        Ok(())
    }

    fn post(&mut self, path: &str, body: &str, wanted: u16) -> Result<String, Failure> {
        let head = "host: bench\r\ncontent-type: application/json\r\ncontent-length";
        let request = format!("POST {path} HTTP/1.1\r\n{head}: {}\r\n\r\n{body}", body.len());
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (mut status, mut length) = (None, 0);
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            status = status.or_else(|| line.split(' ').nth(1)?.parse::<u16>().ok());
            if let Some((_, value)) = line.split_once(": ").filter(|(key, _)| *key == "content-length") {
                length = value.parse()?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        let body = String::from_utf8(body)?;
        if status == Some(wanted) {
            Ok(body)
        } else {
            Err(format!("{path} is answered with {status:?}: {body}").into())
        }
    }
}
