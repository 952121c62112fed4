use crate::node::*;
pub(crate) struct SqliteNode;
impl SqliteNode {
    pub(crate) fn new(_: std::path::PathBuf) -> Self {
        SqliteNode
    }
}
impl Node for SqliteNode {
    fn title(&self) -> &str {
        "x"
    }
    fn open(&self) -> BoxFuture<Result<Box<dyn Session>, Trouble>> {
        Box::pin(std::future::ready(Err(Trouble::Unfit("stub".into()))))
    }
}
