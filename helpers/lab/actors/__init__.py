"""Who acts beside the notebook: sessions, worker processes, the document service; who waits for whom, who is left."""
